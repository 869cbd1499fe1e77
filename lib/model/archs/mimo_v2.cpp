// MiMoV2FlashForCausalLM (MiMo-V2-Flash): keys wider than values, values times a constant, RoPE over a third of a head.
// Layers with a window have heads of their own, another RoPE base and sinks. The first layer dense, then experts chosen
// by biased sigmoid scores, without a shared one.
#include <optional>

#include "model/archs/archs.h"
#include "model/decoders/decoder_model.h"
#include "model/decoders/mtp.h"
#include "model/layers/sparse_moe.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 152576,
                                       .hidden = 4096,
                                       .ffn = 16384,
                                       .n_layers = 48,
                                       .n_heads = 64,
                                       .n_kv_heads = 4,
                                       .head_dim = 192,
                                       .max_positions = 131072,
                                       .eps = 1e-5};
constexpr int64_t kDefaultValueDim = 128, kDefaultWindow = 129;
constexpr double kDefaultValueFactor = 0.707;
constexpr RopeDefaults kFullRope = {5000000, 0.334}, kSlidingRope = {10000, 0.334};
constexpr BiasedMoeDefaults kMoeDefaults = {256, 8, 2048, 0};
constexpr MoeNames kMoeNames = {.choice_bias = "gate.e_score_correction_bias"};
// Servers draft with the first of three, whose names hold the usual prefix of the language model.
const MtpNames kMtp = {"model.mtp.layers.0.", "", "eh_proj", "enorm", "hnorm"};
constexpr const char *kFull = "full_attention", *kSliding = "sliding_attention";

struct MiMoLayer {
  DecoderDims dims;  // with its own heads; head_dim: of queries and keys; ffn: of a dense layer
  int64_t value_dim;
  RopeSpec rope;
  int64_t window;
  bool sparse, sinks;
};

struct MiMoConfig {
  std::vector<MiMoLayer> layers;
  MiMoLayer mtp;  // dense, with a window
  MoeDims moe;
  Bias bias;  // of q, k and v
  float value_factor;
};

LinearGroup load_projections(WeightLoader& loader, WeightBinder& w, const MiMoLayer& c, Bias bias) {
  const DecoderDims& d = c.dims;
  const HostLinear parts[] = {projection(w, "self_attn.q_proj", d.n_heads * d.head_dim, d.hidden, bias),
                              projection(w, "self_attn.k_proj", d.n_kv_heads * d.head_dim, d.hidden, bias),
                              projection(w, "self_attn.v_proj", d.n_kv_heads * c.value_dim, d.hidden, bias)};
  return loader.load_linears(parts);
}

struct MiMoBlock final : Block {
  const MiMoLayer& c;
  const KvLayout& s;
  float value_factor;
  Owned before_attn, before_ffn;  // [hidden]
  LinearGroup qkv;                // [n_heads·Dk, hidden], [n_kv_heads·Dk, hidden], [n_kv_heads·Dv, hidden]
  Linear wo;                      // [hidden, n_heads·Dv]
  Owned sinks;                    // F32 [n_heads], or absent
  std::optional<SparseMoe> experts;
  std::optional<GluMlp> dense;

  MiMoBlock(const MiMoConfig& config, const KvLayout& layout, WeightLoader& loader, WeightBinder w)
      : c(config.layers[static_cast<size_t>(layout.layer)]),
        s(layout),
        value_factor(config.value_factor),
        qkv(load_projections(loader, w, c, config.bias)) {
    const DecoderDims& d = c.dims;
    before_attn = loader.load_gain(w("input_layernorm.weight", {d.hidden}), Gain::Plain);
    const char* mtp_name = "pre_mlp_layernorm.weight";
    before_ffn =
        loader.load_gain(w(w.has(mtp_name) ? mtp_name : "post_attention_layernorm.weight", {d.hidden}), Gain::Plain);
    wo = load_output_projection(loader, w, "self_attn.o_proj", d.hidden, {d.n_heads, c.value_dim});
    if (c.sinks) sinks = loader.load_f32(w("self_attn.attention_sink_bias", {d.n_heads}));
    if (c.sparse)
      experts.emplace(config.moe, load_moe(config.moe, kMoeNames, loader, w.at("mlp.")));
    else
      dense.emplace(loader, w.at("mlp."), d.hidden, d.ffn);
  }

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const float eps = c.dims.eps;
    const Tensor turns = op.rope_table(batch.positions, batch.n_tokens(), c.rope);
    const HeadsPart parts[] = {{s.head_dim_k, {}, true}, {s.head_dim_k, {}, true}, {s.head_dim_v, {}, false}};
    std::vector<Tensor> heads = op.project_heads(op.rms_norm(x, before_attn, eps), qkv, {parts, eps, turns, c.rope});
    heads[2] = op.scale(heads[2], value_factor);
    const Tensor o = attend(op, s, heads, wo, batch, states, tap, tail, {.sinks = sinks});
    if (!o) return x;
    const auto [y, normed] = op.add_rms_norm(x, op.linear(o, wo), before_ffn, eps);
    return op.add(y, experts ? experts->forward(op, normed) : dense->forward(op, normed));
  }
};

/// The usual list of words in place of the published one of zeros and ones.
void put_words(Json& text, const char* published, const char* usual, const Json& words) {
  const Json* bits = find_member(text, published);
  if (!bits) return;
  if (!bits->is_array()) fail(std::string(published) + " is not a list of zeros and ones");
  Json list = Json::array();
  for (const Json& bit : *bits) {
    if (bit != 0 && bit != 1) fail(std::string(published) + " holds " + bit.dump() + ", expected 0 or 1");
    list.push_back(words[bit.get<size_t>()]);
  }
  if (const Json* given = find_member(text, usual); given && *given != list)
    fail(std::string(published) + " and " + usual + " say different things of a layer");
  text[usual] = list;
  text.erase(published);
}

Json renamed(const Json& config) {
  Json out = config;
  Json& text = find_member(out, "text_config") ? out["text_config"] : out;
  text = with_usual_keys(text, {{"layernorm_epsilon", "rms_norm_eps"}});
  put_words(text, "hybrid_layer_pattern", "layer_types", {kFull, kSliding});
  put_words(text, "moe_layer_freq", "mlp_layer_types", {"dense", "sparse"});
  if (!find_member(text, "n_shared_experts")) text["n_shared_experts"] = 0;  // null as published
  return out;
}

// Variants that no published checkpoint has, or that servers and the reference framework take for different things.
void require_the_known_variant(const Json& text) {
  if (get_string_or(text, "attention_projection_layout", "split") != "split")
    fail("attention_projection_layout is " + text["attention_projection_layout"].dump() +
         "; the class is read with projections of their own only");
  if (get_bool_or(text, "add_full_attention_sink_bias", false))
    fail("add_full_attention_sink_bias is true; vLLM gives layers without a window no sinks");
  if (const std::string by = get_string_or(text, "scoring_func", "sigmoid"); by != "sigmoid")
    fail("scoring_func is " + quoted(by) + "; the class is read with sigmoid scores only");
  if (const std::string by = get_string_or(text, "topk_method", "noaux_tc"); by != "noaux_tc")
    fail("topk_method is " + quoted(by) + "; the class is read with 'noaux_tc' only");
  if (get_int(text, "n_shared_experts") != 0) fail("shared experts are not known in this class");
  if (get_number_or(text, "routed_scaling_factor", 1) != 1) fail("routed_scaling_factor is not 1, which servers take");
}

/// By layer_types, else all but the first and every sixth slide.
std::vector<std::string> read_kinds(const Json& text, int64_t n_layers) {
  if (const auto given = read_layer_types(text, n_layers, {kFull, kSliding})) return *given;
  std::vector<std::string> kinds;
  for (int64_t i = 0; i < n_layers; ++i) kinds.emplace_back(i == 0 || (i + 1) % 6 == 0 ? kFull : kSliding);
  return kinds;
}

/// One table for all layers, as newer tools write it beside the published keys: those keys again.
Json without_flat_table(const Json& text) {
  Json own = text;
  const Json* table = find_member(text, "rope_parameters");
  if (!table) return own;
  if (get_string_or(*table, "rope_type", "default") != "default")
    fail("rope_parameters have a rope_type that is not default, which vLLM does not read in this class");
  for (const char* key : {"rope_theta", "partial_rotary_factor"})
    if (table->contains(key) && !find_member(text, key)) own[key] = (*table)[key];
  own.erase("rope_parameters");
  return own;
}

RopeSpec read_rope_of(const Json& text, const std::string& kind, int64_t head_dim) {
  const bool slides = kind == kSliding;
  const RopeDefaults& defaults = slides ? kSlidingRope : kFullRope;
  if (const auto own = rope_config_of_kind(text, kind)) return read_rope(*own, head_dim, defaults);
  if (find_member(text, "rope_scaling")) fail("rope_scaling is given, which vLLM does not read in this class");
  Json own = without_flat_table(text);
  if (slides) own["rope_theta"] = get_number_or(text, "swa_rope_theta", kSlidingRope.theta);
  return read_rope(own, head_dim, defaults);
}

class MiMoV2 final : public DecoderModel {
 public:
  explicit MiMoV2(const Json& config) {
    const Json& text = text_config(config);
    require_the_known_variant(text);
    const DecoderDims dims = read_decoder_dims(config, kDefaults);
    c_.moe = read_biased_moe_dims(text, dims.hidden, kMoeDefaults);
    c_.bias = read_bias(text, "attention_bias");
    const bool null_factor = text.contains("attention_value_scale") && text["attention_value_scale"].is_null();
    c_.value_factor =
        null_factor ? 1 : static_cast<float>(get_number_or(text, "attention_value_scale", kDefaultValueFactor));
    read_layers(text, dims);
    spec_ = general_spec(config, dims);
    for (const MiMoLayer& layer : c_.layers) add_layer(layer);
    final_eps_ = dims.eps;
    spec_.mtp_names = kMtp.begin;
  }

  void append_mtp_layer() override {
    c_.layers.push_back(c_.mtp);
    add_layer(c_.layers.back());
    finish_mtp_layer(spec_, kMtp);
  }
  std::unique_ptr<Block> load_mtp_layer(WeightLoader& loader, WeightBinder& weights, WeightBinder& w) const override {
    return std::make_unique<MtpBlock>(load_mtp_input(spec_, kMtp, Gain::Plain, final_eps_, loader, weights, w),
                                      std::make_unique<MiMoBlock>(c_, spec_.caches.back(), loader, w));
  }

 private:
  std::unique_ptr<Block> make_block(const LayerSpec&, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    return std::make_unique<MiMoBlock>(c_, *cache, loader, w);
  }

  void read_layers(const Json& text, const DecoderDims& dims) {
    const std::vector<std::string> kinds = read_kinds(text, dims.n_layers);
    const std::vector<bool> sparse = read_late_sparse_layers(text, dims.n_layers, c_.moe.n_experts, 1);
    const MiMoLayer full = read_full(text, dims), sliding = read_sliding(text, full);
    c_.mtp = sliding;
    for (size_t i = 0; i < kinds.size(); ++i) {
      c_.layers.push_back(kinds[i] == kSliding ? sliding : full);
      c_.layers.back().sparse = sparse[i];
    }
  }

  static MiMoLayer read_full(const Json& text, const DecoderDims& dims) {
    return {dims, read_size(text, "v_head_dim", kDefaultValueDim), read_rope_of(text, kFull, dims.head_dim), 0, false,
            false};
  }

  /// Twice the key-value heads, where the config has no number of their own. A window counts the query's own key,
  /// which `sliding_window_size` leaves out.
  static MiMoLayer read_sliding(const Json& text, const MiMoLayer& full) {
    MiMoLayer layer = full;
    DecoderDims& d = layer.dims;
    d.n_heads = read_size(text, "swa_num_attention_heads", d.n_heads);
    d.n_kv_heads = read_size(text, "swa_num_key_value_heads", 2 * d.n_kv_heads);
    d.head_dim = read_size(text, "swa_head_dim", d.head_dim);
    expect_size("swa_num_attention_heads", d.n_heads % d.n_kv_heads == 0, d.n_heads,
                "a multiple of their key-value heads, " + std::to_string(d.n_kv_heads));
    layer.value_dim = read_size(text, "swa_v_head_dim", layer.value_dim);
    layer.rope = read_rope_of(text, kSliding, d.head_dim);
    layer.window = find_member(text, "sliding_window_size") ? read_size(text, "sliding_window_size") + 1
                                                            : read_size(text, "sliding_window", kDefaultWindow);
    layer.sinks = get_bool_or(text, "add_swa_attention_sink_bias", true);
    return layer;
  }

  void add_layer(const MiMoLayer& layer) {
    const DecoderDims& d = layer.dims;
    const int64_t heads = d.n_heads + d.n_kv_heads;
    KvLayout& cache = add_attention_layer(spec_, d, layer.rope, layer.window);
    cache.head_dim_v = layer.value_dim;
    cache.learned_sinks = layer.sinks;
    LayerSpec& added = spec_.layers.back();
    added.activations += heads * layer.value_dim;  // scaled values, and where they are wider than keys
    if (layer.sparse) count_moe_layer(added, c_.moe, d.ffn);
  }

  MiMoConfig c_;
};

}  // namespace

std::unique_ptr<Model> parse_mimo_v2(const Json& config) { return std::make_unique<MiMoV2>(renamed(config)); }

}  // namespace kvcal
