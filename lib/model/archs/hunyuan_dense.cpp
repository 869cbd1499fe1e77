// HunYuanDenseV1ForCausalLM: Llama whose q and k are normed by head after RoPE, so that no pair of channels bounds a
// key at other positions; rope of type dynamic with a fixed alpha.
#include "model/archs/archs.h"
#include "model/plain_decoder.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {.vocab = 290943,
                                       .hidden = 4096,
                                       .ffn = 11008,
                                       .n_layers = 32,
                                       .n_heads = 32,
                                       .n_kv_heads = 0,
                                       .head_dim = 0,
                                       .max_positions = 2048,
                                       .eps = 1e-5};

struct HunyuanBlock final : Block {
  const KvLayout& s;
  const RopeSpec& rope;
  float eps;
  DecoderWeights w;
  Owned q_norm, k_norm;  // [D]

  HunyuanBlock(const DecoderDims& d, const KvLayout& layout, const RopeSpec& r, Bias bias, WeightLoader& loader,
               WeightBinder weights)
      : s(layout),
        rope(r),
        eps(d.eps),
        w(load_decoder_weights(d, {bias, bias, Bias::None}, loader, weights)),
        q_norm(loader.load_gain(weights("self_attn.query_layernorm.weight", {d.head_dim}), Gain::Plain)),
        k_norm(loader.load_gain(weights("self_attn.key_layernorm.weight", {d.head_dim}), Gain::Plain)) {}

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const Tensor turns = op.rope_table(batch.positions, batch.n_tokens(), rope);
    const HeadsPart parts[] = {{s.head_dim_k, {}, true}, {s.head_dim_k, {}, true}, {s.head_dim_v, {}, false}};
    auto heads = op.project_heads(op.rms_norm(x, w.attn_norm, eps), w.qkv, {parts, eps, turns, rope});
    heads[0] = op.rms_norm(heads[0], q_norm, eps);
    heads[1] = op.rms_norm(heads[1], k_norm, eps);
    const Tensor o = attend(op, s, heads, w.wo, batch, states, tap, tail);
    if (!o) return x;
    const auto [y, normed] = op.add_rms_norm(x, op.linear(o, w.wo), w.ffn_norm, eps);
    return op.add(y, op.glu_mlp(normed, w.mlp));
  }
};

class HunyuanDense final : public AttentionModel {
 public:
  explicit HunyuanDense(const Json& config) : AttentionModel(config, read_decoder_dims(config, kDefaults)) {
    const Json& text = text_config(config);
    if (get_bool_or(text, "use_cla", false)) fail("use_cla (layers that share keys and values) is not supported");
    if (!get_bool_or(text, "use_qk_norm", true)) fail("use_qk_norm is false; this class is read with norms of q and k");
    rope_ = read_rope(text, dims_.head_dim, {});
    bias_ = get_bool_or(text, "attention_bias", false) ? Bias::Present : Bias::None;
    for (int64_t i = 0; i < dims_.n_layers; ++i) {
      add_attention_layer(spec_, dims_, rope_, 0).pair_bound = PairBound::None;
      AttentionTensors& tensors = spec_.layers.back().attention;
      tensors.norm = HeadNorm::GainBehindRope;
      tensors.query_norm = "query_layernorm";
      tensors.key_norm = "key_layernorm";
    }
  }

 private:
  std::unique_ptr<Block> load_layer(const KvLayout& cache, WeightLoader& loader, WeightBinder w) const override {
    return std::make_unique<HunyuanBlock>(dims_, cache, rope_, bias_, loader, w);
  }

  RopeSpec rope_;
  Bias bias_ = Bias::None;
};

}  // namespace

std::unique_ptr<Model> parse_hunyuan_dense(const Json& config) { return std::make_unique<HunyuanDense>(config); }

}  // namespace kvcal
