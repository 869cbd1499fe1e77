#include "model/decoder_parts.h"

namespace kvcal {
namespace {

class TokenEmbedding final : public Embedding {
 public:
  explicit TokenEmbedding(const Tensor& table) : table_(table) {}
  Tensor forward(Ops& op, const Batch& batch) override { return op.embed(table_, batch.ids); }

 private:
  Tensor table_;  // [vocab, hidden], host
};

class OutputHead final : public Head {
 public:
  OutputHead(Owned norm, float eps, Linear head) : norm_(std::move(norm)), eps_(eps), head_(std::move(head)) {}
  Tensor forward(Ops& op, const Tensor& x) override { return op.linear(op.rms_norm(x, norm_, eps_), head_); }

 private:
  Owned norm_;  // [hidden]
  float eps_;
  Linear head_;  // [vocab, hidden]
};

}  // namespace

std::unique_ptr<Embedding> load_token_embedding(const ModelSpec& spec, WeightBinder& weights) {
  return std::make_unique<TokenEmbedding>(weights("embed_tokens.weight", {spec.vocab, spec.hidden}));
}

std::unique_ptr<Head> load_output_head(const ModelSpec& spec, Gain gain, float eps, Ops& op, WeightBinder& weights,
                                       WeightBinder& head) {
  const Tensor table = spec.tied_head ? weights("embed_tokens.weight", {spec.vocab, spec.hidden})
                                      : head("lm_head.weight", {spec.vocab, spec.hidden});
  return std::make_unique<OutputHead>(op.load_gain(weights("norm.weight", {spec.hidden}), gain), eps,
                                      op.load_linear(table));
}

Linear load_projection(Ops& op, WeightBinder& w, const std::string& name, int64_t out, int64_t in, Bias bias) {
  const Tensor weight = w(name + ".weight", {out, in});
  return op.load_linear(weight, bias == Bias::Present ? w(name + ".bias", {out}) : Tensor{});
}

Swiglu::Swiglu(Ops& op, WeightBinder weights, int64_t hidden, int64_t ffn, Bias bias)
    : w{load_projection(op, weights, "gate_proj", ffn, hidden, bias),
        load_projection(op, weights, "up_proj", ffn, hidden, bias),
        load_projection(op, weights, "down_proj", hidden, ffn, bias)} {}

Tensor Swiglu::forward(Ops& op, const Tensor& x) const {
  return op.linear(op.silu_mul(op.linear(x, w.gate), op.linear(x, w.up)), w.down);
}

PlainDecoderBlock::PlainDecoderBlock(const DecoderDims& dims, const KvLayout& layout, const RopeSpec& rope,
                                     const DecoderBiases& biases, Ops& op, WeightBinder w)
    : layout_(layout),
      rope_(rope),
      eps_(dims.eps),
      attn_norm_(op.load_gain(w("input_layernorm.weight", {dims.hidden}), Gain::Plain)),
      ffn_norm_(op.load_gain(w("post_attention_layernorm.weight", {dims.hidden}), Gain::Plain)),
      wq_(load_projection(op, w, "self_attn.q_proj", dims.n_heads * dims.head_dim, dims.hidden, biases.qkv)),
      wk_(load_projection(op, w, "self_attn.k_proj", dims.n_kv_heads * dims.head_dim, dims.hidden, biases.qkv)),
      wv_(load_projection(op, w, "self_attn.v_proj", dims.n_kv_heads * dims.head_dim, dims.hidden, biases.qkv)),
      wo_(load_projection(op, w, "self_attn.o_proj", dims.hidden, dims.n_heads * dims.head_dim, biases.o)),
      mlp_(op, w.at("mlp."), dims.hidden, dims.ffn, biases.mlp) {}

Tensor PlainDecoderBlock::forward(Ops& op, const Tensor& x, const Batch& batch, LayerStates& states, KvTap& tap,
                                  Tail tail) {
  const int64_t t = batch.n_tokens();
  const KvLayout& s = layout_;
  const Tensor turns = op.rope_table(batch.positions, t, rope_);
  Tensor h = op.rms_norm(x, attn_norm_, eps_);
  Tensor q = op.rope(op.linear(h, wq_).reshaped({t, s.n_heads, s.head_dim_k}), turns, rope_);
  Tensor k = op.rope(op.linear(h, wk_).reshaped({t, s.n_kv_heads, s.head_dim_k}), turns, rope_);
  Tensor v = op.linear(h, wv_).reshaped({t, s.n_kv_heads, s.head_dim_v});
  q = tap.query(s.cache, q, batch);
  k = tap.key(s.cache, k, batch);
  v = tap.value(s.cache, v, batch);
  if (tail == Tail::Skip) return x;
  const AttentionSpec attention{static_cast<float>(s.softmax_scale), s.window};
  const Tensor y = op.add(x, op.linear(op.attention(q, k, v, batch.spans, states.kv_rows(batch), attention), wo_));
  return op.add(y, mlp_.forward(op, op.rms_norm(y, ffn_norm_, eps_)));
}

int64_t plain_decoder_parameters(const DecoderDims& d, const DecoderBiases& biases) {
  const int64_t q = d.n_heads * d.head_dim, kv = d.n_kv_heads * d.head_dim;
  int64_t n = d.hidden * (2 * q + 2 * kv) + 3 * d.hidden * d.ffn + 2 * d.hidden;
  if (biases.qkv == Bias::Present) n += q + 2 * kv;
  if (biases.o == Bias::Present) n += d.hidden;
  if (biases.mlp == Bias::Present) n += 2 * d.ffn + d.hidden;
  return n;
}

}  // namespace kvcal
