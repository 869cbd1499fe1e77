#include "capacity/listed_modules.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "checkpoint/quantization.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

Json member_or_null(const Json& object, const char* key) {
  const Json* member = object.is_object() ? find_member(object, key) : nullptr;
  return member && member->is_object() ? *member : Json();
}

/// Widths of feed-forwards, and of the keys and values of a gated delta net, by the keys of the language model's
/// config; 0 where there is none.
struct Widths {
  double dense = 0, expert = 0, shared = 0, n_experts = 0, delta_keys = 0, delta_values = 0;
};

double first_of(const Json& config, std::initializer_list<const char*> keys) {
  constexpr int64_t kMost = int64_t{1} << 24;
  for (const char* key : keys)
    if (const Json* value = find_member(config, key); value && value->is_number_integer()) {
      const auto n = value->get<int64_t>();
      return n > 0 && n < kMost ? static_cast<double>(n) : 0;
    }
  return 0;
}

Widths widths_of(const Json& config) {
  Widths w;
  w.dense = first_of(config, {"intermediate_size"});
  w.expert = first_of(config, {"moe_intermediate_size", "intermediate_size"});
  w.n_experts = first_of(config, {"num_experts", "n_routed_experts", "num_local_experts"});
  w.shared = first_of(config, {"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"});
  if (w.shared == 0) w.shared = w.expert * first_of(config, {"n_shared_experts", "num_shared_experts"});
  w.delta_keys = first_of(config, {"linear_num_key_heads"}) * first_of(config, {"linear_key_head_dim"});
  w.delta_values = first_of(config, {"linear_num_value_heads"}) * first_of(config, {"linear_value_head_dim"});
  return w;
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

/// Of a name behind its layer's number, in elements; 0: it belongs to what mixes tokens.
double feed_forward_size(std::string_view module, const Widths& w, double hidden) {
  const bool whole = module.ends_with("experts") || module.ends_with("expert") || module.ends_with("mlp");
  const double n = (whole ? 3 : module.ends_with("gate_up_proj") ? 2 : 1) * hidden;
  if (has(module, "shared_expert")) return n * w.shared;
  if (has(module, "experts")) return n * w.expert * (module.ends_with("experts") ? w.n_experts : 1);
  return has(module, "mlp") || has(module, "feed_forward") ? n * w.dense : 0;
}

struct Module {
  std::string_view name;  // behind the layer's number: "self_attn.k_proj"
  double saved_bits = 0;
};

/// Of a gated delta net, whose smallest projections are never listed.
double delta_net_size(std::string_view module, const Widths& w, double hidden) {
  if (module.ends_with("in_proj_qkvz")) return hidden * 2 * (w.delta_keys + w.delta_values);
  if (module.ends_with("in_proj_qkv")) return hidden * (2 * w.delta_keys + w.delta_values);
  return module.ends_with("in_proj_z") || module.ends_with("out_proj") ? hidden * w.delta_values : 0;
}

/// Of a layer that attends the projections have the sizes of its heads, and the queries', with their gate, the rest; of
/// another kind of layer all share the whole.
double mixer_size(std::string_view module, const LayerSpec& layer, const ModelSpec& spec, double whole, size_t n) {
  if (layer.cache < 0 || spec.caches[static_cast<size_t>(layer.cache)].is_mla()) return whole / static_cast<double>(n);
  const KvLayout& c = spec.caches[static_cast<size_t>(layer.cache)];
  const auto k = static_cast<double>(spec.hidden * c.n_kv_heads * c.head_dim_k);
  const auto v = static_cast<double>(spec.hidden * c.n_kv_heads * c.head_dim_v);
  const auto o = static_cast<double>(spec.hidden * c.n_heads * c.head_dim_v);
  if (module.ends_with("k_proj")) return k;
  if (module.ends_with("v_proj")) return v;
  if (module.ends_with("o_proj")) return o;
  if (module.ends_with("q_proj")) return std::max(0.0, whole - k - v - o);
  return module.ends_with("qkv_proj") ? std::max(0.0, whole - o) : 0;
}

double bits_saved_in(const LayerSpec& layer, const std::vector<Module>& modules, const Widths& w,
                     const ModelSpec& spec) {
  const bool sparse = std::ranges::any_of(modules, [](const Module& m) { return has(m.name, "experts"); });
  const auto hidden = static_cast<double>(spec.hidden), all = static_cast<double>(layer.parameters);
  const double ffn = 3 * hidden * (sparse ? w.expert * w.n_experts + w.shared : w.dense);
  const bool has_both = layer.kind != LayerKind::FeedForward && all > ffn;
  const double mixer = all - (has_both ? ffn : 0);
  const auto mixes = [&](const Module& m) { return feed_forward_size(m.name, w, hidden) == 0; };
  const auto n_mixing = static_cast<size_t>(std::ranges::count_if(modules, mixes));
  double saved = 0;
  for (const Module& m : modules) {
    const double of_ffn = feed_forward_size(m.name, w, hidden);
    const double size = of_ffn > 0                               ? of_ffn
                        : layer.kind == LayerKind::GatedDeltaNet ? delta_net_size(m.name, w, hidden)
                                                                 : mixer_size(m.name, layer, spec, mixer, n_mixing);
    saved += m.saved_bits * size;
  }
  return std::min(saved, 16 * all);
}

/// 3 and "mlp.up_proj" of "model.language_model.layers.3.mlp.up_proj"; -1 for what is in no layer.
std::pair<int, std::string_view> layer_and_module(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  const size_t at = name.find(kLayers);
  if (at == name.npos || has(name.substr(0, at), "mtp") || has(name.substr(0, at), "vis")) return {-1, name};
  name.remove_prefix(at + kLayers.size());
  int layer = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.') return {-1, name};
  return {layer, name.substr(static_cast<size_t>(end - name.data()) + 1)};
}

}  // namespace

Json quantized_layers(const Json& config, const fs::path& folder) {
  if (Json listed = member_or_null(find_quantization(config, folder), "quantized_layers"); listed.is_object())
    return listed;
  const fs::path beside = folder / "hf_quant_config.json";
  std::error_code ignored;
  if (!fs::is_regular_file(beside, ignored)) return nullptr;
  const Json json = read_json_file(beside, {.max_bytes = size_t{32} << 20, .max_depth = 64});
  const Json nested = member_or_null(json, "quantization");
  return member_or_null(nested.is_object() ? nested : json, "quantized_layers");
}

uint64_t bytes_saved(const Json& listed, const Json& config, const ModelSpec& spec,
                     const std::function<double(const Json&)>& bits_of) {
  std::map<int, std::vector<Module>> by_layer;
  double bits = 0;
  for (const auto& item : listed.items()) {
    const double saved = std::max(0.0, 16 - bits_of(item.value()));
    const auto [layer, module] = layer_and_module(item.key());
    if (layer >= 0)
      by_layer[layer].push_back({module, saved});
    else if (item.key().ends_with("lm_head") && !spec.tied_head)
      bits += saved * static_cast<double>(spec.vocab * spec.hidden);
  }
  const Widths widths = widths_of(config);
  for (const LayerSpec& layer : spec.layers)
    if (const auto found = by_layer.find(layer.index); found != by_layer.end() && !spec.is_mtp(layer.index))
      bits += bits_saved_in(layer, found->second, widths, spec);
  return static_cast<uint64_t>(std::llround(bits / 8));
}

}  // namespace kvcal
