// Gemma4ForCausalLM and the text part of Gemma4- and Gemma4UnifiedForConditionalGeneration (12B): full layers with
// heads of their own width and number, the last layers without caches of their own, embeddings by layer, experts
// (docs/model-notes.md, "Gemma 4"). The factor of proportional RoPE is ignored as servers do; the reference divides by
// it.
#include <algorithm>
#include <cmath>

#include "model/archs/archs.h"
#include "model/decoders/gemma4_block.h"
#include "model/layers/gemma_parts.h"
#include "model/layers/sharing_attention.h"
#include "model/layers/sparse_moe.h"
#include "model/rope.h"

namespace kvcal {
namespace {

/// What a class assumes where the config is silent.
struct ClassDefaults {
  DecoderDefaults dims;
  int64_t window, per_layer_dim;
  const char* bidirectional;
};
constexpr DecoderDefaults kDims = {.vocab = 262144,
                                   .hidden = 2304,
                                   .ffn = 9216,
                                   .n_layers = 30,
                                   .n_heads = 8,
                                   .n_kv_heads = 4,
                                   .head_dim = 256,
                                   .max_positions = 131072,
                                   .tied_head = true,
                                   .act = Activation::GeluTanh,
                                   .act_key = "hidden_activation",
                                   .layers_differ = true};
constexpr DecoderDefaults kUnifiedDims = {.vocab = 262144,
                                          .hidden = 2304,
                                          .ffn = 9216,
                                          .n_layers = 30,
                                          .n_heads = 8,
                                          .n_kv_heads = 4,
                                          .head_dim = 256,
                                          .max_positions = 262144,
                                          .tied_head = true,
                                          .act = Activation::GeluTanh,
                                          .act_key = "hidden_activation",
                                          .layers_differ = true};
constexpr ClassDefaults kDefaults = {kDims, 512, 256, ""}, kUnified = {kUnifiedDims, 1024, 0, "vision"};
constexpr int64_t kDefaultGlobalHeadDim = 512, kDefaultPeriod = 6, kDefaultPerLayerVocab = 262144;

const Json& default_ropes() {
  static const Json ropes = {
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 10000.0}}},
      {"full_attention", {{"rope_type", "proportional"}, {"partial_rotary_factor", 0.25}, {"rope_theta", 1000000.0}}}};
  return ropes;
}

RopeSpec read_rope_of(const Json& text, const char* kind, int64_t head_dim) {
  Json config = text;
  if (!find_member(text, "rope_parameters")) config["rope_parameters"] = default_ropes();
  const auto of_kind = rope_config_of_kind(config, kind);
  if (!of_kind) fail("rope_parameters are not by layer kind");
  return read_rope(*of_kind, head_dim, {});
}

// Layers that attend to everything; the last one always does.
std::vector<bool> read_full_layers(const Json& text, int64_t n_layers) {
  std::vector<bool> full;
  for (const int64_t window : read_periodic_windows(text, n_layers, 1, kDefaultPeriod)) full.push_back(window == 0);
  full.back() = true;
  return full;
}

void read_own_geometry(const Json& own, const DecoderDims& dims, Gemma4Layer& layer) {
  for (const auto& [key, value] : own.items())
    if (key != "head_dim" && key != "num_key_value_heads") fail("unknown key " + quoted(key) + " in per_layer_config");
  layer.head_dim = read_size(own, "head_dim", dims.head_dim);
  layer.n_kv_heads = read_size(own, "num_key_value_heads", dims.n_kv_heads);
}

// Newer saves list what differs by layer (`own`, or null); older ones have two keys for all full layers.
void read_geometry(const Json& text, const DecoderDims& dims, bool k_eq_v, const Json* own, Gemma4Layer& layer) {
  layer.head_dim = dims.head_dim;
  layer.n_kv_heads = dims.n_kv_heads;
  if (own) {
    read_own_geometry(*own, dims, layer);
  } else if (layer.full && !find_member(text, "per_layer_config")) {
    const bool null_width = text.contains("global_head_dim") && text["global_head_dim"].is_null();
    layer.head_dim = null_width ? dims.head_dim : read_size(text, "global_head_dim", kDefaultGlobalHeadDim);
    if (k_eq_v) layer.n_kv_heads = read_size(text, "num_global_key_value_heads", dims.n_kv_heads);
  }
  if (dims.n_heads % layer.n_kv_heads != 0)
    fail("num_attention_heads " + std::to_string(dims.n_heads) + " is not a multiple of the " +
         std::to_string(layer.n_kv_heads) + " key heads of layer " + std::to_string(layer.index));
}

std::vector<Gemma4Layer> read_layers(const Json& text, const DecoderDims& dims) {
  const bool k_eq_v = get_bool_or(text, "attention_k_eq_v", false),
             wide = get_bool_or(text, "use_double_wide_mlp", false);
  const std::vector<bool> full = read_full_layers(text, dims.n_layers);
  const std::vector<int> owners = read_cache_owners(text, full, 0);
  const std::vector<const Json*> own = read_layer_entries(text, dims.n_layers);
  std::vector<Gemma4Layer> layers;
  for (int64_t i = 0; i < dims.n_layers; ++i) {
    Gemma4Layer l{};
    l.index = static_cast<int>(i);
    l.full = full[static_cast<size_t>(i)];
    l.owner = owners[static_cast<size_t>(i)];
    const bool shares = l.owner != l.index;
    if (shares) layers[static_cast<size_t>(l.owner)].shared = true;
    l.keys_as_values = k_eq_v && l.full;
    l.ffn = dims.ffn * (wide && shares ? 2 : 1);
    read_geometry(text, dims, k_eq_v, own[static_cast<size_t>(i)], l);
    const Gemma4Layer& owner = shares ? layers[static_cast<size_t>(l.owner)] : l;
    if (owner.head_dim != l.head_dim || owner.n_kv_heads != l.n_kv_heads)
      fail("layer " + std::to_string(i) + " shares the cache of layer " + std::to_string(owner.index) +
           ", but its heads have another shape");
    layers.push_back(l);
  }
  return layers;
}

std::optional<MoeDims> read_moe(const Json& text, int64_t hidden) {
  if (!get_bool_or(text, "enable_moe_block", get_bool_or(text, "use_second_mlp_block", false))) return std::nullopt;
  MoeDims d{hidden, read_size(text, "num_experts"), 0};
  const char* ffn = find_member(text, "moe_intermediate_size") ? "moe_intermediate_size" : "expert_intermediate_size";
  d.ffn = read_size(text, ffn);
  d.routing.k = read_size(text, "top_k_experts");
  d.routing.renormalize = true;
  d.act = Activation::GeluTanh;
  check_moe_dims(d, "top_k_experts");
  return d;
}

class Gemma4 final : public Model {
 public:
  Gemma4(const Json& config, const ClassDefaults& defaults) {
    const Json& text = text_config(config);
    refuse_bidirectional(text);
    c_.dims = read_decoder_dims(config, defaults.dims);
    c_.bias = read_bias(text, "attention_bias");
    c_.attention_cap = read_cap(text, "attn_logit_softcapping", 0);
    c_.per_layer_dim = read_optional_size(text, "hidden_size_per_layer_input", defaults.per_layer_dim);
    c_.per_layer_vocab = read_size(text, "vocab_size_per_layer_input", kDefaultPerLayerVocab);
    if (c_.per_layer_vocab * c_.dims.n_layers >= int64_t{1} << 31)
      fail("vocab_size_per_layer_input is " + std::to_string(c_.per_layer_vocab) + ", which is out of range");
    c_.pad = static_cast<int32_t>(read_optional_size(text, "pad_token_id", 0));
    c_.moe = read_moe(text, c_.dims.hidden);
    layers_ = read_layers(text, c_.dims);
    logits_end_.cap = read_cap(text, "final_logit_softcapping", 0);
    spec_ = general_spec(config, c_.dims);
    spec_.images_seen_whole = !spec_.placeholders.empty() &&
                              get_string_or(text, "use_bidirectional_attention", defaults.bidirectional) == "vision";
    spec_.table_parameters = c_.per_layer_vocab * c_.per_layer_dim * c_.dims.n_layers;
    add_layers(text, read_size(text, "sliding_window", defaults.window));
    if (find_member(config, "text_config")) spec_.default_prefix = "model.language_model.";
  }

  std::unique_ptr<Embedding> load_embedding(WeightLoader& loader, WeightBinder& weights) const override {
    return load_token_embedding(spec_, weights,
                                in_activation_type(loader, std::sqrt(static_cast<float>(spec_.hidden))));
  }
  std::unique_ptr<Block> load_block(int layer, WeightLoader& loader, WeightBinder& weights) const override {
    const LayerSpec& l = spec_.layers[static_cast<size_t>(layer)];
    const int cache = l.cache >= 0 ? l.cache : l.shares_cache;
    return load_gemma4_block(c_, layers_[static_cast<size_t>(layer)], spec_.caches[static_cast<size_t>(cache)], loader,
                             weights);
  }
  std::unique_ptr<Head> load_head(WeightLoader& loader, WeightBinder& weights, WeightBinder& head) const override {
    const Norm norm{Norm::Kind::Rms, c_.dims.eps, loader.load_f32(weights("norm.weight", {spec_.hidden})), {}};
    return load_output_head(spec_, norm, logits_end_, loader, weights, head);
  }

 private:
  void add_layers(const Json& text, int64_t window) {
    for (const Gemma4Layer& l : layers_) {
      RopeSpec& rope = l.full ? c_.full_rope : c_.sliding_rope;
      if (rope.rotary_dim == 0) rope = read_rope_of(text, l.full ? "full_attention" : "sliding_attention", l.head_dim);
      if (l.head_dim != of_kind(l.full).head_dim) fail("layers of one kind have heads of different widths");
      DecoderDims dims = c_.dims;
      dims.head_dim = l.head_dim;
      dims.n_kv_heads = l.n_kv_heads;
      dims.ffn = l.ffn;
      KvLayout& cache = add_attention_layer(spec_, dims, rope, l.full ? 0 : window);
      cache.softmax_scale = 1;
      cache.normed_output = true;
      cache.capped_logits = c_.attention_cap > 0;
      LayerSpec& added = spec_.layers.back();
      added.attention.norm = HeadNorm::Gain;
      added.attention.value_normed = true;
      added.activations += gemma4_extra_activations(c_);
      if (c_.moe) added.expert_share = expert_share(*c_.moe);
      if (l.owner != l.index) share_cache(spec_, l.owner);
    }
  }

  const Gemma4Layer& of_kind(bool full) const {
    return *std::find_if(layers_.begin(), layers_.end(), [&](const Gemma4Layer& l) { return l.full == full; });
  }

  Gemma4Config c_;
  std::vector<Gemma4Layer> layers_;
  LogitsEnd logits_end_;
};

}  // namespace

std::unique_ptr<Model> parse_gemma4(const Json& config) { return std::make_unique<Gemma4>(config, kDefaults); }
std::unique_ptr<Model> parse_gemma4_unified(const Json& config) { return std::make_unique<Gemma4>(config, kUnified); }

}  // namespace kvcal
