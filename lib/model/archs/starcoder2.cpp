// Starcoder2ForCausalLM: layer norms with bias, biases on all projections with use_bias, a feed-forward without gate,
// one window for all layers.
#include "model/archs/archs.h"
#include "model/decoder_model.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {
    49152, 3072, 12288, 30, 24, 2, 0, 4096, true, Activation::GeluTanh, "hidden_act", "norm_epsilon", 1e-5};

Norm load_norm(WeightLoader& loader, WeightBinder& w, const std::string& name, int64_t n, float eps) {
  return {Norm::Kind::Layer, eps, loader.load_f32(w(name + ".weight", {n})), loader.load_f32(w(name + ".bias", {n}))};
}

struct Starcoder2Block final : Block {
  const KvLayout& s;
  const RopeSpec& rope;
  Norm attn_norm, ffn_norm;  // [hidden]
  LinearGroup qkv;
  Linear wo;       // [hidden, n_heads·D]
  GluWeights mlp;  // c_fc [ffn, hidden], c_proj [hidden, ffn]

  Starcoder2Block(const DecoderDims& d, const KvLayout& layout, const RopeSpec& r, Bias bias, WeightLoader& loader,
                  WeightBinder w)
      : s(layout),
        rope(r),
        attn_norm(load_norm(loader, w, "input_layernorm", d.hidden, d.eps)),
        ffn_norm(load_norm(loader, w, "post_attention_layernorm", d.hidden, d.eps)),
        qkv(load_qkv(loader, w, d, bias)),
        wo(load_output_projection(loader, w, "self_attn.o_proj", d.hidden, {d.n_heads, d.head_dim}, bias)),
        mlp(loader.load_mlp(projection(w, "mlp.c_fc", d.ffn, d.hidden, bias),
                            projection(w, "mlp.c_proj", d.hidden, d.ffn, bias), Activation::GeluTanh)) {}

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const Tensor turns = op.rope_table(batch.positions, batch.n_tokens(), rope);
    const HeadsPart parts[] = {{s.head_dim_k, {}, true}, {s.head_dim_k, {}, true}, {s.head_dim_v, {}, false}};
    const auto heads = op.project_heads(attn_norm.forward(op, x), qkv, {parts, attn_norm.eps, turns, rope});
    const Tensor o = attend(op, s, heads, wo, batch, states, tap, tail);
    if (!o) return x;
    const Tensor y = op.add(x, op.linear(o, wo));
    return op.add(y, op.glu_mlp(ffn_norm.forward(op, y), mlp));
  }
};

class Starcoder2 final : public DecoderModel {
 public:
  explicit Starcoder2(const Json& config) : dims_(read_decoder_dims(config, kDefaults)) {
    const Json& text = text_config(config);
    rope_ = read_rope(text, dims_.head_dim, {});
    bias_ = get_bool_or(text, "use_bias", true) ? Bias::Present : Bias::None;
    const int64_t window = find_member(text, "sliding_window") ? read_size(text, "sliding_window") : 0;
    const int64_t q = dims_.n_heads * dims_.head_dim, kv = dims_.n_kv_heads * dims_.head_dim, hidden = dims_.hidden;
    int64_t parameters = hidden * (2 * q + 2 * kv) + 2 * hidden * dims_.ffn + 4 * hidden;
    if (bias_ == Bias::Present) parameters += q + 2 * kv + 2 * hidden + dims_.ffn;
    spec_ = general_spec(config, dims_);
    spec_.table_parameters = hidden;  // the last norm's bias
    for (int64_t i = 0; i < dims_.n_layers; ++i) add_attention_layer(spec_, dims_, rope_, window, parameters);
  }

  std::unique_ptr<Head> load_head(WeightLoader& loader, WeightBinder& weights, WeightBinder& head) const override {
    return load_output_head(spec_, load_norm(loader, weights, "norm", spec_.hidden, dims_.eps), {}, loader, weights,
                            head);
  }

 private:
  std::unique_ptr<Block> make_block(const LayerSpec&, const KvLayout* cache, WeightLoader& loader,
                                    WeightBinder w) const override {
    return std::make_unique<Starcoder2Block>(dims_, *cache, rope_, bias_, loader, w);
  }

  DecoderDims dims_;
  RopeSpec rope_;
  Bias bias_ = Bias::None;
};

}  // namespace

std::unique_ptr<Model> parse_starcoder2(const Json& config) { return std::make_unique<Starcoder2>(config); }

}  // namespace kvcal
