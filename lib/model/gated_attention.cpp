#include "model/gated_attention.h"

#include "model/weight_rows.h"

namespace kvcal {
namespace {

// q_proj holds per head [ q_h (D rows) | gate_h (D rows) ]; part 0 is q, part 1 the gate.
Linear load_query_part(Ops& op, const Tensor& weight, const Tensor& bias, const DecoderDims& d, int64_t part) {
  const auto rows = rows_of_groups(d.n_heads, 2 * d.head_dim, part * d.head_dim, d.head_dim);
  const Storage w = select_rows(weight, rows);
  const Storage b = bias ? select_rows(bias, rows) : Storage();
  return op.load_linear(w.tensor(), b.tensor());
}

}  // namespace

GatedAttention::GatedAttention(const DecoderDims& d, const KvLayout& layout, const RopeSpec& rope, Bias bias,
                               bool output_gate, Ops& op, WeightBinder& w)
    : layout_(layout),
      rope_(rope),
      eps_(d.eps),
      wk_(load_projection(op, w, "self_attn.k_proj", d.n_kv_heads * d.head_dim, d.hidden, bias)),
      wv_(load_projection(op, w, "self_attn.v_proj", d.n_kv_heads * d.head_dim, d.hidden, bias)),
      wo_(load_projection(op, w, "self_attn.o_proj", d.hidden, d.n_heads * d.head_dim, bias)),
      q_norm_(op.load_gain(w("self_attn.q_norm.weight", {d.head_dim}), Gain::OnePlus)),
      k_norm_(op.load_gain(w("self_attn.k_norm.weight", {d.head_dim}), Gain::OnePlus)) {
  const int64_t rows = d.n_heads * d.head_dim * (output_gate ? 2 : 1);
  if (!output_gate) {
    wq_ = load_projection(op, w, "self_attn.q_proj", rows, d.hidden, bias);
    return;
  }
  const Tensor weight = w("self_attn.q_proj.weight", {rows, d.hidden});
  const Tensor b = bias == Bias::Present ? w("self_attn.q_proj.bias", {rows}) : Tensor{};
  wq_ = load_query_part(op, weight, b, d, 0);
  wgate_ = load_query_part(op, weight, b, d, 1);
}

Tensor GatedAttention::forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap,
                               Tail tail) const {
  const int64_t t = batch.n_tokens();
  const KvLayout& s = layout_;
  const Tensor turns = op.rope_table(batch.positions, t, rope_);
  Tensor q = op.linear(h, wq_).reshaped({t, s.n_heads, s.head_dim_k});
  Tensor k = op.linear(h, wk_).reshaped({t, s.n_kv_heads, s.head_dim_k});
  Tensor v = op.linear(h, wv_).reshaped({t, s.n_kv_heads, s.head_dim_v});
  q = tap.query(s.cache, op.rope(op.rms_norm(q, q_norm_, eps_), turns, rope_), batch);
  k = tap.key(s.cache, op.rope(op.rms_norm(k, k_norm_, eps_), turns, rope_), batch);
  v = tap.value(s.cache, v, batch);
  if (tail == Tail::Skip) return h;
  const AttentionSpec attention{static_cast<float>(s.softmax_scale), s.window};
  Tensor o = op.attention(q, k, v, batch.spans, states.kv_rows(batch), attention);
  if (wgate_) o = op.sigmoid_mul(o, op.linear(h, wgate_));
  return op.linear(o, wo_);
}

int64_t GatedAttention::parameters(const DecoderDims& d, Bias bias, bool output_gate) {
  const int64_t q = d.n_heads * d.head_dim, kv = d.n_kv_heads * d.head_dim, q_rows = output_gate ? 2 * q : q;
  const int64_t biases = bias == Bias::Present ? q_rows + 2 * kv + d.hidden : 0;
  return d.hidden * (q_rows + 2 * kv + q) + 2 * d.head_dim + biases;
}

}  // namespace kvcal
