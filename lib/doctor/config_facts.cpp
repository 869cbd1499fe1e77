#include <algorithm>

#include "base/json_text.h"
#include "doctor/checkpoint_facts.h"

namespace kvcal {
namespace {

// The part that describes the language model, where a wrapper holds several.
const Json& text_config(const Json& config) {
  for (const char* key : {"text_config", "llm_config", "language_config", "thinker_config"})
    if (const Json& inner = object_at(config, key); !inner.empty()) return text_config(inner);
  return config;
}

bool has_any(const Json& config, std::initializer_list<const char*> keys) {
  return std::any_of(keys.begin(), keys.end(), [&](const char* key) { return find_member(config, key) != nullptr; });
}

bool has_recurrent_layer(const Json& config) {
  for (const char* key : {"layer_types", "layers_block_type"})
    for (const Json& type : list_at(config, key))
      for (const char* recurrent : {"linear", "mamba", "ssm", "recurrent", "conv", "hybrid"})
        if (type.is_string() && type.get_ref<const std::string&>().find(recurrent) != std::string::npos) return true;
  return false;
}

// For configs that the program cannot read as a model: what the families say whose layers have no kinds there.
bool names_recurrent_layers(const Json& config) {
  return has_any(config,
                 {"hybrid_override_pattern", "full_attention_interval", "attn_layer_period", "attn_layer_indices",
                  "hybrid_layer_ids", "layer_group_size", "linear_attn_config", "mamba_d_ssm", "state_size"});
}

// Qwen 2 and 2.5 have biases on q, k, v without saying so.
bool has_key_bias(const Json& config, const std::string& type) {
  const Json* said = find_member(config, "attention_bias");
  if (said != nullptr && said->is_boolean()) return said->get<bool>();
  return type.starts_with("qwen2");
}

}  // namespace

void take_config(const Json& config, ModelTraits& model) {
  if (!config.is_object()) return;
  const Json& text = text_config(config);
  model.from_config = true;
  model.model_type = text_at(text, "model_type");
  if (model.model_type.empty()) model.model_type = text_at(config, "model_type");
  model.hybrid = trait_of(has_recurrent_layer(text) || names_recurrent_layers(text));
  take_config(config, model.state);
  model.architecture = model.state.architecture;
  model.latent = trait_of(integer_at(text, "kv_lora_rank") > 0);
  model.multimodal = trait_of(has_any(config, {"vision_config", "audio_config", "visual", "thinker_config"}));
  model.key_bias = trait_of(has_key_bias(text, model.model_type));
  for (const char* key : {"dtype", "torch_dtype"})
    for (const Json* part : {&text, &config})
      if (model.weights_type.empty()) model.weights_type = text_at(*part, key);
  const Json* window = find_member(text, "sliding_window");
  const Json* use = find_member(text, "use_sliding_window");
  model.sliding = trait_of(window != nullptr && window->is_number_integer() &&
                           !(use != nullptr && use->is_boolean() && !use->get<bool>()));
  model.n_layers = integer_at(text, "num_hidden_layers");
  model.n_heads = integer_at(text, "num_attention_heads");
  model.n_kv_heads = integer_at(text, "num_key_value_heads");
  model.intermediate = integer_at(text, "intermediate_size");
  model.head_dim = integer_at(text, "head_dim");
  const int64_t global = model.global_head_dim = integer_at(text, "global_head_dim");  // Gemma 4
  model.head_widths_differ = trait_of(global > 0 && model.head_dim > 0 && global != model.head_dim);
  const Json* cap = find_member(text, "final_logit_softcapping");
  if (cap != nullptr && cap->is_number()) model.logit_cap = cap->get<double>();
  model.sparse = trait_of(integer_at(text, "index_topk") > 0 || has_any(text, {"sparse_attention_config"}));
  if (model.latent != Trait::Yes) return;
  const int64_t rotated = integer_at(text, "qk_rope_head_dim");
  model.latent_width = integer_at(text, "kv_lora_rank") + rotated;
  model.prefill_width_k = integer_at(text, "qk_nope_head_dim") + rotated;
  model.prefill_width_v = integer_at(text, "v_head_dim");
}

namespace {

constexpr const char* kAdapterFile = "adapter_config.json";

/// Modules whose output, rotated or not, is what the cache stores.
bool writes_cache(const std::string& target) {
  for (const char* module : {"k_proj", "v_proj", "qkv_proj", "kv_a_proj_with_mqa", "kv_b_proj", "all-linear"})
    if (target == module || target.ends_with(std::string(".") + module)) return true;
  return false;
}

std::string joined_targets(const Json& targets) {
  std::string text;
  const auto take = [&](const Json& target) {
    if (!target.is_string() || !writes_cache(target.get_ref<const std::string&>())) return;
    text += (text.empty() ? "" : ", ") + target.get<std::string>();
  };
  if (targets.is_string()) take(targets);
  if (targets.is_array()) std::for_each(targets.begin(), targets.end(), take);
  return text;
}

}  // namespace

void take_adapter(const std::filesystem::path& path, Facts& facts) {
  const bool folder = std::filesystem::is_directory(path);
  const Json json = read_json_file(folder ? path / kAdapterFile : path, {.max_bytes = size_t{1} << 20});
  const Json* targets = json.is_object() ? find_member(json, "target_modules") : nullptr;
  if (targets == nullptr) fail(quoted(path.string()) + ": no LoRA adapter: has no \"target_modules\"");
  facts.adapter = AdapterFacts{path.string(), joined_targets(*targets)};
}

}  // namespace kvcal
