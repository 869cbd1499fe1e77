// The checks of the op contract: once for all backends. A message names the op and the tensors that do not fit.
#include "ops/op_check.h"

namespace kvcal {

Linear Ops::load_linear(const Tensor& weight, const Tensor& bias) {
  const OpCheck c("load_linear", activation_dtype());
  c.linear({weight, bias});
  return do_load_linear(weight, bias);
}

Owned Ops::load_gain(const Tensor& weight, Gain kind) {
  const OpCheck c("load_gain", activation_dtype());
  c.rank("weight", weight, 1);
  c.real("weight", weight);
  c.host("weight", weight);
  return kind == Gain::OnePlus ? do_load_vector(weight, DType::F32, 1.0f)
                               : do_load_vector(weight, activation_dtype(), 0.0f);
}

Owned Ops::load_f32(const Tensor& weight) {
  const OpCheck c("load_f32", activation_dtype());
  c.real("weight", weight);
  c.host("weight", weight);
  return do_load_vector(weight, DType::F32, 0.0f);
}

Tensor Ops::embed(const Tensor& table, std::span<const int32_t> ids) {
  const OpCheck c("embed", activation_dtype());
  c.rank("table", table, 2);
  c.real("table", table);
  c.host("table", table);
  for (size_t i = 0; i < ids.size(); ++i)
    c.require(ids[i] >= 0 && ids[i] < table.dim(0),
              "token id " + std::to_string(ids[i]) + " at " + std::to_string(i) + " is outside table " + str(table));
  return do_embed(table, ids);
}

Tensor Ops::linear(const Tensor& x, const Linear& w) {
  const OpCheck c("linear", activation_dtype());
  c.activation("x", x);
  c.require(static_cast<bool>(w), "the weight is not loaded");
  c.require(x.dim(-1) == w.in,
            "x " + str(x) + " does not fit weight " + str(Shape{w.out, w.in}) + " (output, input width)");
  return do_linear(x, w);
}

Tensor Ops::rms_norm(const Tensor& x, const Tensor& gain, float eps) {
  const OpCheck c("rms_norm", activation_dtype());
  c.activation("x", x);
  c.gain(gain, "x", x);
  return do_rms_norm(x, gain, eps);
}

Tensor Ops::add(const Tensor& x, const Tensor& y) {
  const OpCheck c("add", activation_dtype());
  c.activation("x", x);
  c.activation("y", y);
  c.same_shape("x", x, "y", y);
  return do_add(x, y);
}

Tensor Ops::silu_mul(const Tensor& gate, const Tensor& up) {
  const OpCheck c("silu_mul", activation_dtype());
  c.activation("gate", gate);
  c.activation("up", up);
  c.same_shape("gate", gate, "up", up);
  return do_silu_mul(gate, up);
}

Tensor Ops::sigmoid_mul(const Tensor& x, const Tensor& gate) {
  const OpCheck c("sigmoid_mul", activation_dtype());
  c.activation("x", x);
  c.activation("gate", gate);
  bool per_row = gate.shape.rank() == x.shape.rank() && gate.dim(-1) == 1;
  for (int i = 0; per_row && i + 1 < x.shape.rank(); ++i) per_row = gate.dim(i) == x.dim(i);
  c.require(per_row || gate.shape == x.shape,
            "gate " + str(gate) + " has neither the shape of x " + str(x) + " nor one column for each of its rows");
  return do_sigmoid_mul(x, gate);
}

Tensor Ops::columns(const Tensor& x, int64_t from, int64_t n) {
  const OpCheck c("columns", activation_dtype());
  c.require(x.shape.rank() >= 1 && bits_of(x.dtype) >= 8, "x " + str(x) + " has no columns that can be copied");
  c.require(from >= 0 && n >= 0 && from + n <= x.dim(-1),
            "columns " + std::to_string(from) + " to " + std::to_string(from + n) + " are not all in x " + str(x));
  return do_columns(x, from, n);
}

Tensor Ops::take_rows(const Tensor& x, std::span<const int64_t> rows) {
  const OpCheck c("take_rows", activation_dtype());
  c.require(x.shape.rank() >= 1 && bits_of(x.dtype) >= 8, "x " + str(x) + " has no rows that can be copied");
  for (const int64_t r : rows)
    c.require(r >= 0 && r < x.dim(0), "row " + std::to_string(r) + " is outside x " + str(x));
  return do_take_rows(x, rows);
}

Tensor Ops::rope_table(std::span<const int32_t> positions, int64_t n_tokens, const RopeSpec& spec) {
  const OpCheck c("rope_table", activation_dtype());
  c.require(n_tokens >= 0, std::to_string(n_tokens) + " tokens");
  const int64_t half = spec.rotary_dim / 2;
  c.require(
      spec.rotary_dim >= 0 && spec.rotary_dim % 2 == 0 && static_cast<int64_t>(spec.inverse_frequency.size()) == half,
      std::to_string(spec.inverse_frequency.size()) + " frequencies for rotary dimension " +
          std::to_string(spec.rotary_dim) + ", expected half as many");
  c.require(spec.axis.empty() || static_cast<int64_t>(spec.axis.size()) == half,
            std::to_string(spec.axis.size()) + " axes for " + std::to_string(half) + " frequencies");
  int n_axes = 1;
  for (const int a : spec.axis) {
    c.require(a >= 0, "negative axis");
    n_axes = std::max(n_axes, a + 1);
  }
  c.require(static_cast<int64_t>(positions.size()) >= n_axes * n_tokens,
            std::to_string(positions.size()) + " positions for " + std::to_string(n_axes) + " axes of " +
                std::to_string(n_tokens) + " tokens");
  return do_rope_table(positions, n_tokens, spec);
}

Tensor Ops::rope(const Tensor& x, const Tensor& table, const RopeSpec& spec) {
  const OpCheck c("rope", activation_dtype());
  c.activation("x", x);
  c.rank("x", x, 3);
  c.rope_table(table, spec, "x", x);
  return do_rope(x, table, spec);
}

Tensor Ops::attention(const Tensor& q, const Tensor& k, const Tensor& v, std::span<const Span> spans,
                      std::span<KvRows* const> rows, const AttentionSpec& spec) {
  const OpCheck c("attention", activation_dtype());
  c.activation("q", q);
  c.activation("k", k);
  c.activation("v", v);
  c.rank("q", q, 3);
  c.rank("k", k, 3);
  c.rank("v", v, 3);
  c.require(q.dim(0) == k.dim(0) && q.dim(2) == k.dim(2) && k.dim(1) > 0 && q.dim(1) % k.dim(1) == 0,
            "q " + str(q) + " does not fit k " + str(k));
  c.require(k.dim(0) == v.dim(0) && k.dim(1) == v.dim(1), "k " + str(k) + " does not fit v " + str(v));
  c.require(spec.window >= 0, "window " + std::to_string(spec.window));
  c.require(spec.softcap >= 0.0f, "softcap " + std::to_string(spec.softcap));
  if (spec.sinks) c.state("sinks", spec.sinks, {q.dim(1)}, DType::F32);
  c.spans(q, spans, rows.size());
  c.distinct(rows);
  for (size_t i = 0; i < spans.size(); ++i) {
    const KvRows* kept = rows[i];
    c.fresh(kept && kept->n_tokens > 0, spans[i]);
    if (!kept) continue;
    c.require(kept->n_tokens == spans[i].first_position,
              "a span starts at position " + std::to_string(spans[i].first_position) + ", but " +
                  std::to_string(kept->n_tokens) + " rows of its sequence are kept");
    if (!kept->key) continue;
    c.state("kept keys", kept->key.view, {kept->key.view.dim(0), k.dim(1), k.dim(2)}, k.dtype);
    c.state("kept values", kept->value.view, {kept->key.view.dim(0), v.dim(1), v.dim(2)}, v.dtype);
  }
  return do_attention(q, k, v, spans, rows, spec);
}

Tensor Ops::causal_conv_silu(const Tensor& x, const Tensor& w, std::span<const Span> spans,
                             std::span<ConvState* const> states) {
  const OpCheck c("causal_conv_silu", activation_dtype());
  c.activation("x", x);
  c.rank("x", x, 2);
  c.f32("w", w);
  c.rank("w", w, 2);
  c.require(w.dim(0) == x.dim(1) && w.dim(1) >= 1, "w " + str(w) + " does not fit x " + str(x));
  c.spans(x, spans, states.size());
  c.distinct(states);
  for (size_t i = 0; i < spans.size(); ++i) {
    const bool kept = states[i] && states[i]->window;
    c.fresh(kept, spans[i]);
    if (kept) c.state("window", states[i]->window.view, {w.dim(1) - 1, x.dim(1)}, x.dtype);
  }
  return do_causal_conv_silu(x, w, spans, states);
}

Tensor Ops::l2_norm(const Tensor& x, float eps) {
  OpCheck("l2_norm", activation_dtype()).activation("x", x);
  return do_l2_norm(x, eps);
}

Ops::DeltaGates Ops::delta_gates(const Tensor& a, const Tensor& b, const Tensor& a_log, const Tensor& dt_bias) {
  const OpCheck c("delta_gates", activation_dtype());
  c.activation("a", a);
  c.rank("a", a, 2);
  c.activation("b", b);
  c.same_shape("a", a, "b", b);
  c.f32("a_log", a_log);
  c.f32("dt_bias", dt_bias);
  c.fits_columns("a_log", a_log, "a", a);
  c.fits_columns("dt_bias", dt_bias, "a", a);
  return do_delta_gates(a, b, a_log, dt_bias);
}

Tensor Ops::gated_delta_rule(const Tensor& q, const Tensor& k, const Tensor& v, const DeltaGates& gates,
                             std::span<const Span> spans, std::span<DeltaState* const> states) {
  const OpCheck c("gated_delta_rule", activation_dtype());
  c.activation("q", q);
  c.activation("k", k);
  c.activation("v", v);
  c.rank("q", q, 3);
  c.rank("v", v, 3);
  c.same_shape("q", q, "k", k);
  c.require(v.dim(0) == k.dim(0) && k.dim(1) > 0 && v.dim(1) % k.dim(1) == 0,
            "v " + str(v) + " does not fit k " + str(k));
  c.f32("g", gates.g);
  c.f32("beta", gates.beta);
  c.require(gates.g.shape == Shape{v.dim(0), v.dim(1)}, "g " + str(gates.g) + " does not fit v " + str(v));
  c.same_shape("g", gates.g, "beta", gates.beta);
  c.spans(v, spans, states.size());
  c.distinct(states);
  for (size_t i = 0; i < spans.size(); ++i) {
    const bool kept = states[i] && states[i]->s;
    c.fresh(kept, spans[i]);
    if (kept) c.state("state", states[i]->s.view, {v.dim(1), k.dim(2), v.dim(2)}, DType::F32);
  }
  return do_gated_delta_rule(q, k, v, gates, spans, states);
}

Tensor Ops::gated_rms_norm(const Tensor& x, const Tensor& z, const Tensor& gain, float eps, GateActivation act) {
  const OpCheck c("gated_rms_norm", activation_dtype());
  c.activation("x", x);
  c.activation("z", z);
  c.same_shape("x", x, "z", z);
  c.f32("gain", gain);
  c.fits_columns("gain", gain, "x", x);
  return do_gated_rms_norm(x, z, gain, eps, act);
}

Routing Ops::route_softmax(const Tensor& logits, int64_t k, bool renormalize) {
  const OpCheck c("route_softmax", activation_dtype());
  c.activation("logits", logits);
  c.rank("logits", logits, 2);
  c.require(k >= 1 && k <= logits.dim(1), std::to_string(k) + " experts of logits " + str(logits));
  return do_route_softmax(logits, k, renormalize);
}

Tensor Ops::experts_swiglu(const Tensor& x, const Routing& routing, std::span<const SwigluWeights> experts) {
  const OpCheck c("experts_swiglu", activation_dtype());
  c.activation("x", x);
  c.rank("x", x, 2);
  c.require(routing.experts.dtype == DType::I32, "experts " + str(routing.experts) + " should be I32");
  c.f32("weights", routing.weights);
  c.rank("experts", routing.experts, 2);
  c.same_shape("experts", routing.experts, "weights", routing.weights);
  c.require(routing.experts.dim(0) == x.dim(0), "experts " + str(routing.experts) + " do not fit x " + str(x));
  c.require(!experts.empty(), "no experts");
  const int64_t ffn = experts[0].gate.out, dim = x.dim(1);
  for (size_t e = 0; e < experts.size(); ++e) {
    const auto fits = [](const Linear& l, int64_t out, int64_t in) { return l && l.out == out && l.in == in; };
    c.require(fits(experts[e].gate, ffn, dim) && fits(experts[e].up, ffn, dim) && fits(experts[e].down, dim, ffn),
              "expert " + std::to_string(e) + " has gate " + str(Shape{experts[e].gate.out, experts[e].gate.in}) +
                  ", up " + str(Shape{experts[e].up.out, experts[e].up.in}) + ", down " +
                  str(Shape{experts[e].down.out, experts[e].down.in}) + "; does not fit x " + str(x) +
                  " or the first expert");
    c.require(!experts[e].gate.bias && !experts[e].up.bias && !experts[e].down.bias, "experts with bias");
  }
  if (routing.experts.device == Device::Host)
    for (int64_t i = 0; i < routing.experts.elements(); ++i) {
      const int32_t e = routing.experts.as<int32_t>()[i];
      c.require(e >= 0 && static_cast<size_t>(e) < experts.size(),
                "expert " + std::to_string(e) + " chosen of " + std::to_string(experts.size()));
    }
  return do_experts_swiglu(x, routing, experts);
}

}  // namespace kvcal
