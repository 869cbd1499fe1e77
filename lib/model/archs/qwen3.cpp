// Qwen3ForCausalLM: RMSNorm over each head of q and k (plain gain) before RoPE; biases only with attention_bias;
// windows as in Qwen2 (architectures.md 2).
#include "model/archs/archs.h"
#include "model/decoder_parts.h"
#include "model/rope.h"

namespace kvcal {
namespace {

constexpr DecoderDefaults kDefaults = {151936, 4096, 22016, 32, 32, 32, 128, 32768};

struct Qwen3Block final : Block {
  const KvLayout& s;
  const RopeSpec& rope;
  float eps;
  Owned attn_norm, ffn_norm;  // [hidden]
  LinearGroup qkv;
  Linear wo;             // [hidden, n_heads·D]
  Owned q_norm, k_norm;  // [D]
  GluMlp mlp;

  Qwen3Block(const DecoderDims& d, const KvLayout& layout, const RopeSpec& r, Bias bias, Ops& op, WeightBinder w)
      : s(layout),
        rope(r),
        eps(d.eps),
        attn_norm(op.load_gain(w("input_layernorm.weight", {d.hidden}), Gain::Plain)),
        ffn_norm(op.load_gain(w("post_attention_layernorm.weight", {d.hidden}), Gain::Plain)),
        qkv(load_qkv(op, w, d, bias)),
        wo(load_projection(op, w, "self_attn.o_proj", d.hidden, d.n_heads * d.head_dim, bias)),
        q_norm(op.load_gain(w("self_attn.q_norm.weight", {d.head_dim}), Gain::Plain)),
        k_norm(op.load_gain(w("self_attn.k_norm.weight", {d.head_dim}), Gain::Plain)),
        mlp(op, w.at("mlp."), d.hidden, d.ffn) {}

  Tensor forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap, Tail tail) override {
    const Tensor turns = op.rope_table(batch.positions, batch.n_tokens(), rope);
    const HeadsPart parts[] = {{s.head_dim_k, q_norm, true}, {s.head_dim_k, k_norm, true}, {s.head_dim_v, {}, false}};
    const auto heads = op.project_heads(op.rms_norm(x, attn_norm, eps), qkv, {parts, eps, turns, rope});
    const Tensor q = tap.query(s.cache, heads[0], batch), k = tap.key(s.cache, heads[1], batch),
                 v = tap.value(s.cache, heads[2], batch);
    if (tail == Tail::Skip) return x;
    const AttentionSpec attention{static_cast<float>(s.softmax_scale), s.window};
    const Tensor o = op.attention(q, k, v, batch.spans, states.kv_rows(batch), attention);
    const auto [y, normed] = op.add_rms_norm(x, op.linear(o, wo), ffn_norm, eps);
    return op.add(y, mlp.forward(op, normed));
  }
};

class Qwen3 final : public Model {
 public:
  explicit Qwen3(const Json& config) : dims_(read_decoder_dims(config, kDefaults)) {
    const Json& text = text_config(config);
    rope_ = read_rope(text, dims_.head_dim, {});
    bias_ = get_bool_or(text, "attention_bias", false) ? Bias::Present : Bias::None;
    spec_ = general_spec(config, dims_);
    const int64_t parameters = plain_decoder_parameters(dims_, {bias_, bias_, Bias::None}) + 2 * dims_.head_dim;
    for (const int64_t window : read_qwen_windows(text, dims_.n_layers))
      add_attention_layer(spec_, dims_, rope_, window, parameters);
  }

  std::unique_ptr<Embedding> load_embedding(Ops&, WeightBinder& weights) const override {
    return load_token_embedding(spec_, weights);
  }
  std::unique_ptr<Block> load_block(int layer, Ops& op, WeightBinder& weights) const override {
    return std::make_unique<Qwen3Block>(dims_, spec_.caches[static_cast<size_t>(layer)], rope_, bias_, op,
                                        weights.at("layers." + std::to_string(layer) + "."));
  }
  std::unique_ptr<Head> load_head(Ops& op, WeightBinder& weights, WeightBinder& head) const override {
    return load_output_head(spec_, Gain::Plain, dims_.eps, op, weights, head);
  }

 private:
  DecoderDims dims_;
  RopeSpec rope_;
  Bias bias_ = Bias::None;
};

}  // namespace

std::unique_ptr<Model> parse_qwen3(const Json& config) { return std::make_unique<Qwen3>(config); }

}  // namespace kvcal
