#include "model/layers/gated_attention.h"

#include "model/layers/weight_rows.h"

namespace kvcal {
namespace {

// q_proj holds per head [ q_h (D rows) | gate_h (D rows) ]; part 0 is q, part 1 the gate.
struct QueryPart {
  Storage weight, bias;
  InputRounding input;

  QueryPart(const HostLinear& both, const DecoderDims& d, int64_t part) : input(both.input) {
    const RowsOfGroups rows{d.n_heads, 2 * d.head_dim, part * d.head_dim, d.head_dim};
    weight = select_rows(both.weight, rows);
    if (both.bias) bias = select_rows(both.bias, rows);
  }
  HostLinear linear() const { return {weight.tensor(), bias.tensor(), input}; }
};

}  // namespace

GatedAttention::GatedAttention(const DecoderDims& d, const KvLayout& layout, const RopeSpec& rope, Bias bias,
                               bool output_gate, WeightLoader& loader, WeightBinder& w)
    : layout_(layout),
      rope_(rope),
      eps_(d.eps),
      wo_(load_output_projection(loader, w, "self_attn.o_proj", d.hidden, {d.n_heads, d.head_dim}, bias,
                                 output_gate ? OutputTo::Gate : OutputTo::Stream)),
      q_norm_(loader.load_gain(w("self_attn.q_norm.weight", {d.head_dim}), Gain::OnePlus)),
      k_norm_(loader.load_gain(w("self_attn.k_norm.weight", {d.head_dim}), Gain::OnePlus)) {
  if (!output_gate) {
    qkv_ = load_qkv(loader, w, d, bias);
    return;
  }
  const HostLinear both = projection(w, "self_attn.q_proj", 2 * d.n_heads * d.head_dim, d.hidden, bias);
  const QueryPart query(both, d, 0), gate(both, d, 1);
  const HostLinear parts[] = {query.linear(),
                              projection(w, "self_attn.k_proj", d.n_kv_heads * d.head_dim, d.hidden, bias),
                              projection(w, "self_attn.v_proj", d.n_kv_heads * d.head_dim, d.hidden, bias)};
  qkv_ = loader.load_linears(parts);
  // Servers keep the gate with queries, keys and values as one weight.
  wgate_ = loader.load_linear(gate.weight.tensor(), gate.bias.tensor(), qkv_.parts[0].input);
}

Tensor GatedAttention::forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap,
                               Tail tail) const {
  const KvLayout& s = layout_;
  const Tensor turns = op.rope_table(batch.positions, batch.n_tokens(), rope_);
  const HeadsPart parts[] = {{s.head_dim_k, q_norm_, true}, {s.head_dim_k, k_norm_, true}, {s.head_dim_v, {}, false}};
  const auto heads = op.project_heads(h, qkv_, {parts, eps_, turns, rope_});
  Tensor o = attend(op, s, heads, wo_, batch, states, tap, tail);
  if (!o) return h;
  if (wgate_) o = op.sigmoid_mul(o, op.linear(h, wgate_));
  return op.linear(o, wo_);
}

}  // namespace kvcal
