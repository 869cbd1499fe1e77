// GlmForCausalLM and Glm4ForCausalLM: interleaved RoPE over half of a head, gate and up in one tensor, biases on q, k,
// v. GLM-4-0414 (Glm4) also norms what attention and feed-forward return. Glm4vForConditionalGeneration, the language
// model: Glm4 whose pairs turn by three rows of positions. The older ChatGLM files of the same models are another class
// with other names.
#include "model/archs/archs.h"
#include "model/plain_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 151552,
                                       .hidden = 4096,
                                       .ffn = 13696,
                                       .n_layers = 40,
                                       .n_heads = 32,
                                       .n_kv_heads = 2,
                                       .head_dim = 128,
                                       .max_positions = 131072,
                                       .eps = 1.5625e-7};
constexpr RopeDefaults kRopeDefaults = {10000, 0.5};
constexpr DecoderDefaults kVisionDefaults = {.vocab = 151552,
                                             .hidden = 4096,
                                             .ffn = 13696,
                                             .n_layers = 40,
                                             .n_heads = 32,
                                             .n_kv_heads = 2,
                                             .head_dim = 0,
                                             .max_positions = 32768,
                                             .eps = 1e-5};

DecoderWeights load_glm_weights(const DecoderDims& d, Bias qkv, OutputTo to, WeightLoader& loader, WeightBinder& w) {
  WeightBinder mlp = w.at("mlp.");
  return {loader.load_gain(w("input_layernorm.weight", {d.hidden}), Gain::Plain),
          loader.load_gain(w("post_attention_layernorm.weight", {d.hidden}), Gain::Plain), load_qkv(loader, w, d, qkv),
          load_output_projection(loader, w, "self_attn.o_proj", d.hidden, {d.n_heads, d.head_dim}, Bias::None, to),
          load_fused_glu(loader, mlp, {"gate_up_proj", "down_proj"}, d.hidden, d.ffn)};
}

struct Glm4Block final : Block {
  const KvLayout& s;
  const RopeSpec& rope;
  float eps;
  DecoderWeights w;
  Owned after_attn, after_ffn;  // [hidden]

  Glm4Block(const DecoderDims& d, const KvLayout& layout, const RopeSpec& r, Bias bias, WeightLoader& loader,
            WeightBinder weights)
      : s(layout),
        rope(r),
        eps(d.eps),
        w(load_glm_weights(d, bias, OutputTo::Norm, loader, weights)),
        after_attn(loader.load_gain(weights("post_self_attn_layernorm.weight", {d.hidden}), Gain::Plain)),
        after_ffn(loader.load_gain(weights("post_mlp_layernorm.weight", {d.hidden}), Gain::Plain)) {}

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const Tensor turns = op.rope_table(batch.positions, batch.n_tokens(), rope);
    const HeadsPart parts[] = {{s.head_dim_k, {}, true}, {s.head_dim_k, {}, true}, {s.head_dim_v, {}, false}};
    const auto heads = op.project_heads(op.rms_norm(x, w.attn_norm, eps), w.qkv, {parts, eps, turns, rope});
    const Tensor o = attend(op, s, heads, w.wo, batch, states, tap, tail);
    if (!o) return x;
    const Tensor attended = op.rms_norm(op.linear(o, w.wo), after_attn, eps);
    const auto [y, normed] = op.add_rms_norm(x, attended, w.ffn_norm, eps);
    return op.add(y, op.rms_norm(op.glu_mlp(normed, w.mlp), after_ffn, eps));
  }
};

class GlmBase : public AttentionModel {
 protected:
  GlmBase(const Json& config, bool vision)
      : AttentionModel(config, read_decoder_dims(config, vision ? kVisionDefaults : kDefaults)) {
    const Json& text = text_config(config);
    rope_ = vision ? read_rope(with_mrope_sections(text, {8, 12, 12}, false), dims_.head_dim, {})
                   : read_rope(text, dims_.head_dim, kRopeDefaults);
    rope_.interleaved = true;
    bias_ = get_bool_or(text, "attention_bias", true) ? Bias::Present : Bias::None;
    for (int64_t i = 0; i < dims_.n_layers; ++i) add_attention_layer(spec_, dims_, rope_, 0);
  }

  RopeSpec rope_;
  Bias bias_ = Bias::Present;
};

class Glm final : public GlmBase {
 public:
  explicit Glm(const Json& config) : GlmBase(config, false) {}

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    return std::make_unique<PlainDecoderBlock>(cache, rope_, dims_.eps,
                                               load_glm_weights(dims_, bias_, OutputTo::Stream, loader, w));
  }
};

class Glm4 final : public GlmBase {
 public:
  explicit Glm4(const Json& config, bool vision = false) : GlmBase(config, vision) {
    for (KvLayout& cache : spec_.caches) cache.normed_output = true;
    for (LayerSpec& layer : spec_.layers) layer.activations += 2 * dims_.hidden;
  }

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    return std::make_unique<Glm4Block>(dims_, cache, rope_, bias_, loader, w);
  }
};

}  // namespace

std::unique_ptr<Model> parse_glm(const Json& config) { return std::make_unique<Glm>(config); }
std::unique_ptr<Model> parse_glm4(const Json& config) { return std::make_unique<Glm4>(config); }
std::unique_ptr<Model> parse_glm4v(const Json& config) { return std::make_unique<Glm4>(config, true); }

}  // namespace kvcal
