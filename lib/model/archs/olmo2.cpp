// Olmo2ForCausalLM and Olmo3ForCausalLM: norms behind attention and feed-forward instead of before them, RMSNorm of q
// and k over all heads together before RoPE. OLMo 3 adds windows on three layers of four; its rope scaling is meant for
// the full layers only. FlexOlmoForCausalLM: OLMo 2 with experts by softmax scores in every layer.
// OlmoHybridForCausalLM: three gated delta nets, with norms before them, to one layer of OLMo 2, which need not rotate.
#include "model/archs/archs.h"
#include "model/decoders/plain_decoder.h"
#include "model/layers/decoder_block.h"
#include "model/layers/gated_delta_net.h"
#include "model/layers/mixer.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {
    .vocab = 50304, .hidden = 4096, .ffn = 11008, .n_layers = 32, .n_heads = 32, .max_positions = 2048, .eps = 1e-5};
constexpr RopeDefaults kOlmo3Rope = {500000}, kFlexRope = {500000};
constexpr DecoderDefaults kFlexDefaults = {
    .vocab = 100352, .hidden = 4096, .ffn = 11008, .n_layers = 32, .n_heads = 32, .max_positions = 4096};
constexpr int64_t kFlexExperts = 7, kFlexActive = 5;
constexpr int64_t kOlmo3Window = 4096, kOlmo3Period = 4;  // every fourth layer sees all

/// A norm as servers call it, and as the reference framework saves it in a hybrid.
struct NormName {
  const char *served, *saved;
};
constexpr NormName kFirstNorm = {"input_layernorm", "attention_layer_norm"};
constexpr NormName kSecondNorm = {"post_attention_layernorm", "feedforward_layer_norm"};

const char* name_in(const WeightBinder& w, const NormName& name) {
  return w.has(std::string(name.saved) + ".weight") ? name.saved : name.served;
}

/// What layers that attend have in common.
struct OlmoShape {
  DecoderDims dims;
  Bias bias;                     // of q, k, v and o
  std::optional<MoeDims> moe{};  // instead of a dense feed-forward
};

OlmoShape read_shape(const Json& config, const DecoderDefaults& defaults) {
  const bool biased = get_bool_or(text_config(config), "attention_bias", false);
  return {read_decoder_dims(config, defaults), biased ? Bias::Present : Bias::None};
}

std::unique_ptr<Block> load_olmo_block(const OlmoShape& shape, const KvLayout& layout, const RopeSpec& rope,
                                       WeightLoader& loader, WeightBinder w) {
  const DecoderDims& d = shape.dims;
  const RmsNorms norm{loader, w, d.hidden, d.eps};
  const AttentionForm form{.qkv = shape.bias, .o = shape.bias, .norm = QkNorm::WholeRow, .to = OutputTo::Norm};
  DecoderBlockParts parts;
  parts.mixer = std::make_unique<SelfAttention>(d, layout, rope, form, loader, w);
  if (shape.moe)
    parts.ffn = SparseMoe(*shape.moe, load_moe(*shape.moe, {}, loader, w.at("mlp.")));
  else
    parts.ffn = GluMlp(loader, w.at("mlp."), d.hidden, d.ffn);
  parts.after_mixer = norm(name_in(w, kSecondNorm));
  parts.after_ffn = norm("post_feedforward_layernorm");
  return std::make_unique<DecoderBlock>(std::move(parts));
}

/// Adds a layer that attends.
void add_olmo_layer(ModelSpec& spec, const OlmoShape& shape, const RopeSpec& rope, int64_t window) {
  const DecoderDims& d = shape.dims;
  add_attention_layer(spec, d, rope, window).normed_output = true;
  spec.layers.back().attention.norm = HeadNorm::Gain;
  spec.layers.back().activations += d.hidden;  // two norms, no fused one
  if (shape.moe) count_moe_layer(spec.layers.back(), *shape.moe, d.ffn);
}

class Olmo final : public AttentionModel {
 public:
  /// Layers with a window turn by `sliding`, the others by `full`.
  Olmo(const Json& config, const OlmoShape& shape, const RopeSpec& full, const RopeSpec& sliding,
       const std::vector<int64_t>& windows)
      : AttentionModel(config, shape.dims), shape_(shape), full_(full), sliding_(sliding) {
    for (const int64_t window : windows) add_olmo_layer(spec_, shape_, rope_of(window), window);
  }

 private:
  const RopeSpec& rope_of(int64_t window) const { return window > 0 ? sliding_ : full_; }

  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    return load_olmo_block(shape_, cache, rope_of(cache.window), loader, w);
  }

  OlmoShape shape_;
  RopeSpec full_, sliding_;
};

/// All layers see all and turn alike.
std::unique_ptr<Model> make_even(const Json& config, const OlmoShape& shape, const RopeDefaults& defaults) {
  const RopeSpec rope = read_rope(text_config(config), shape.dims.head_dim, defaults);
  const std::vector<int64_t> windows(static_cast<size_t>(shape.dims.n_layers), 0);
  return std::make_unique<Olmo>(config, shape, rope, rope, windows);
}

std::vector<int64_t> read_olmo3_windows(const Json& text, int64_t n_layers) {
  if (find_member(text, "layer_types")) return read_windows(text, n_layers, kOlmo3Window);
  std::vector<int64_t> windows = read_windows(text, n_layers, kOlmo3Window);
  for (size_t i = kOlmo3Period - 1; i < windows.size(); i += kOlmo3Period) windows[i] = 0;
  return windows;
}

// Without rope_parameters by kind of layer the scaling at the top is the full layers'; the others have none.
Json sliding_rope_config(const Json& text) {
  if (const auto own = rope_config_of_kind(text, "sliding_attention")) return *own;
  return {{"rope_theta", get_number_or(text, "rope_theta", kOlmo3Rope.theta)}};
}

constexpr DecoderDefaults kHybridDefaults = {
    .vocab = 100352, .hidden = 3840, .ffn = 11008, .n_layers = 32, .n_heads = 30, .max_positions = 65536};
constexpr int64_t kHybridPeriod = 4;  // every fourth layer attends

DeltaNetInputs load_delta_inputs(const DeltaNetDims& d, WeightLoader& loader, WeightBinder w) {
  const auto load = [&](const char* name, int64_t out) { return load_projection(loader, w, name, out, d.hidden); };
  return {{load("q_proj", d.keys()), load("k_proj", d.keys()), load("v_proj", d.values())},
          load("g_proj", d.values()),
          load("b_proj", d.n_value_heads),
          load("a_proj", d.n_value_heads)};
}

std::unique_ptr<Block> load_delta_block(const DecoderDims& d, const DeltaNetDims& dims, WeightLoader& loader,
                                        WeightBinder w) {
  const RmsNorms norm{loader, w, d.hidden, d.eps};
  const WeightBinder module = w.at("linear_attn.");
  DecoderBlockParts parts{.before_mixer = norm(name_in(w, kFirstNorm)), .before_ffn = norm(name_in(w, kSecondNorm))};
  parts.mixer = std::make_unique<GatedDeltaNet>(dims, load_delta_inputs(dims, loader, module), loader, module,
                                                DeltaNetNames{"o_proj", "o_norm"});
  parts.ffn = GluMlp(loader, w.at("mlp."), d.hidden, d.ffn);
  return std::make_unique<DecoderBlock>(std::move(parts));
}

/// Sizes follow from those of attention where the config has none.
DeltaNetDims read_olmo_delta_dims(const Json& text, const DecoderDims& dims) {
  constexpr float kNormEps = 1e-5f;  // of the class, no config key
  Json filled = text;
  const auto fill = [&](const char* key, auto value) {
    if (!find_member(text, key)) filled[key] = value;
    return read_size(filled, key);
  };
  const int64_t keys = fill("linear_num_key_heads", dims.n_heads);
  fill("linear_num_value_heads", dims.n_heads);
  fill("linear_value_head_dim", 2 * fill("linear_key_head_dim", dims.hidden * 3 / (4 * keys)));
  if (!get_bool_or(text, "linear_use_gate", true)) fail("linear_use_gate is false; the class is read with gates only");
  DeltaNetDims d = read_delta_net_dims(filled, dims.hidden, kNormEps);
  if (get_bool_or(text, "linear_allow_neg_eigval", true)) d.beta_factor = 2;
  return d;
}

/// A base of null, beside the table or in it, is no rotation.
RopeSpec read_hybrid_rope(const Json& text, int64_t head_dim) {
  const Json* table = find_member(text, "rope_parameters");
  const Json& owner = table && table->contains("rope_theta") ? *table : text;
  if (owner.contains("rope_theta") && owner["rope_theta"].is_null()) return {};
  return read_rope(text, head_dim, {});
}

class OlmoHybrid final : public DecoderModel {
 public:
  explicit OlmoHybrid(const Json& config) : shape_(read_shape(config, kHybridDefaults)) {
    const Json& text = text_config(config);
    delta_ = read_olmo_delta_dims(text, shape_.dims);
    rope_ = read_hybrid_rope(text, shape_.dims.head_dim);
    spec_ = general_spec(config, shape_.dims);
    final_eps_ = shape_.dims.eps;
    for (const bool attends : read_attending(text)) {
      if (attends) {
        add_olmo_layer(spec_, shape_, rope_, 0);
        continue;
      }
      add_recurrent_layer(spec_, LayerKind::GatedDeltaNet, GatedDeltaNet::size(delta_), shape_.dims.ffn);
      spec_.layers.back().activations += 2 * delta_.channels() + delta_.n_value_heads;  // joined, doubled
    }
  }

 private:
  std::unique_ptr<Block> make_block(const LayerSpec&, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    if (cache) return load_olmo_block(shape_, *cache, rope_, loader, w);
    return load_delta_block(shape_.dims, delta_, loader, w);
  }

  /// By layer_types, else every fourth, or of fewer layers the last.
  std::vector<bool> read_attending(const Json& text) const {
    const auto types = read_layer_types(text, shape_.dims.n_layers, {"full_attention", "linear_attention"});
    std::vector<bool> attends;
    for (int64_t i = 0; i < shape_.dims.n_layers; ++i)
      attends.push_back(types ? (*types)[static_cast<size_t>(i)] == "full_attention" : (i + 1) % kHybridPeriod == 0);
    if (!types && shape_.dims.n_layers < kHybridPeriod) attends.back() = true;
    return attends;
  }

  OlmoShape shape_;
  DeltaNetDims delta_{};
  RopeSpec rope_;
};

}  // namespace

std::unique_ptr<Model> parse_olmo_hybrid(const Json& config) { return std::make_unique<OlmoHybrid>(config); }

std::unique_ptr<Model> parse_olmo2(const Json& config) { return make_even(config, read_shape(config, kDefaults), {}); }

std::unique_ptr<Model> parse_flex_olmo(const Json& config) {
  const Json& text = text_config(config);
  OlmoShape shape = read_shape(config, kFlexDefaults);
  MoeDims& moe = shape.moe.emplace();
  moe.hidden = shape.dims.hidden;
  moe.ffn = shape.dims.ffn;
  moe.n_experts = get_int_or(text, "num_experts", get_int_or(text, "num_local_experts", kFlexExperts));
  moe.routing.k = get_int_or(text, "num_experts_per_tok", kFlexActive);
  moe.routing.renormalize = get_bool_or(text, "norm_topk_prob", false);
  check_moe_dims(moe);
  return make_even(config, shape, kFlexRope);
}

std::unique_ptr<Model> parse_olmo3(const Json& config) {
  const OlmoShape shape = read_shape(config, kDefaults);
  const Json& text = text_config(config);
  const auto rope_of = [&](const Json& own) { return read_rope(own, shape.dims.head_dim, kOlmo3Rope); };
  const RopeSpec full = rope_of(rope_config_of_kind(text, "full_attention").value_or(text)),
                 sliding = rope_of(sliding_rope_config(text));
  return std::make_unique<Olmo>(config, shape, full, sliding, read_olmo3_windows(text, shape.dims.n_layers));
}

}  // namespace kvcal
