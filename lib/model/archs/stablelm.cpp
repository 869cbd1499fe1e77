// StableLmForCausalLM (StableLM 3B, 2, Zephyr): layer norms with bias, RoPE over a part of a head, a gated
// feed-forward; with use_parallel_residual both branches read the same norm, with qk_layernorm every head of q and k
// has a norm and a gain of its own. vLLM reads neither of the two keys; SGLang reads neither either.
#include "model/archs/archs.h"
#include "model/decoders/layer_norm_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 50304,
                                       .hidden = 2560,
                                       .ffn = 6912,
                                       .n_layers = 32,
                                       .n_heads = 32,
                                       .n_kv_heads = 32,
                                       .max_positions = 4096,
                                       .eps_key = "layer_norm_eps",
                                       .eps = 1e-5};
constexpr RopeDefaults kRopeDefaults = {10000, 0.25};

class StableLm final : public LayerNormModel {
 public:
  explicit StableLm(const Json& config) : LayerNormModel(config, read_decoder_dims(config, kDefaults)) {
    const Json& text = text_config(config);
    rope_ = read_rope(text, dims_.head_dim, kRopeDefaults);
    bias_ = read_bias(text, "use_qkv_bias");
    parallel_ = get_bool_or(text, "use_parallel_residual", false);
    qk_norm_ = get_bool_or(text, "qk_layernorm", false);
    for (int64_t i = 0; i < dims_.n_layers; ++i) {
      add_layer(rope_, "self_attn");
      if (qk_norm_) spec_.layers.back().attention.obstacle = "the norms of its heads are a tensor each";
    }
  }

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    const DecoderDims& d = dims_;
    NormedWeights weights = {load_layer_norm(loader, w, "input_layernorm", d.hidden, d.eps), std::nullopt,
                             load_qkv(loader, w, d, bias_),
                             load_output_projection(loader, w, "self_attn.o_proj", d.hidden, {d.n_heads, d.head_dim}),
                             GluMlp(loader, w.at("mlp."), d.hidden, d.ffn).w};
    if (!parallel_) weights.ffn_norm = load_layer_norm(loader, w, "post_attention_layernorm", d.hidden, d.eps);
    if (qk_norm_) {
      weights.q_norm = load_head_norms(loader, w, "self_attn.q_layernorm", d.n_heads);
      weights.k_norm = load_head_norms(loader, w, "self_attn.k_layernorm", d.n_kv_heads);
    }
    return make_normed_block(cache, rope_, std::move(weights), parallel_);
  }

  /// "NAME.norms.0.weight" [D], ... -> one gain [heads, D].
  Norm load_head_norms(WeightLoader& loader, WeightBinder& w, const std::string& name, int64_t heads) const {
    std::vector<float> gains(static_cast<size_t>(heads * dims_.head_dim));
    float* to = gains.data();
    for (const WeightBinder& one : w.modules(name + ".norms.", heads)) {
      const Tensor gain = one("weight", {dims_.head_dim});
      convert_to_float(gain.dtype, gain.data, to, static_cast<size_t>(dims_.head_dim));
      to += dims_.head_dim;
    }
    return {Norm::Kind::Layer, dims_.eps, loader.load_f32({gains.data(), {heads, dims_.head_dim}, DType::F32}), {}};
  }

  RopeSpec rope_;
  Bias bias_ = Bias::None;
  bool parallel_ = false, qk_norm_ = false;
};

}  // namespace

std::unique_ptr<Model> parse_stablelm(const Json& config) { return std::make_unique<StableLm>(config); }

}  // namespace kvcal
