// The checks of the op contract: once for all backends. A message names the op and the tensors that do not fit.
#include <cmath>

#include "ops/op_check.h"
#include "ops/rotation_signs.h"

namespace kvcal {
namespace {

void check_request(const OpCheck& c, const SampleRequest& request, const Tensor& q) {
  c.f32("column norms", request.column_norms);
  c.rank("column norms", request.column_norms, 2);
  c.require(request.thorough.empty() || request.thorough.size() == request.rows.size(),
            std::to_string(request.thorough.size()) + " marks of thorough rows for " +
                std::to_string(request.rows.size()) + " rows");
  c.require(request.rungs_below >= 0 && request.rungs_below <= 8,
            std::to_string(request.rungs_below) + " rungs below the lowest");
  if (request.stream) {
    c.activation("stream", request.stream);
    c.rank("stream", request.stream, 2);
    c.require(request.stream.dim(0) == q.dim(0), "stream " + str(request.stream) + " does not fit q " + str(q));
  }
  for (size_t i = 0; i < request.rows.size(); ++i)
    c.require(request.rows[i] >= (i == 0 ? 0 : request.rows[i - 1] + 1) && request.rows[i] < q.dim(0),
              "sampled row " + std::to_string(request.rows[i]) + " of q " + str(q) + " is not above the one before");
}

/// Of the rows that are kept for a span there are as many as it needs.
void check_kept(const OpCheck& c, const KvRows& kept, const Span& span) {
  const int64_t needed = span.first_position + span.n_tokens;
  c.require(kept.key && kept.n_tokens >= needed, "rows of " + std::to_string(needed) + " positions are needed, " +
                                                     std::to_string(kept.n_tokens) + " are kept");
}

}  // namespace

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
  c.input_of(x, w, false);
  return do_linear(round_input(x, w.input), w);
}

Tensor Ops::linear_f32(const Tensor& x, const Linear& w) {
  const OpCheck c("linear_f32", activation_dtype());
  c.input_of(x, w, true);
  return do_linear_f32(round_input(x, w.input), w);
}

Tensor Ops::round_input(const Tensor& x, const InputRounding& rounding) {
  if (!rounding) return x;
  OpCheck("round_input", activation_dtype()).activation("x", x);
  return do_round_input(x, rounding);
}

Tensor Ops::round_cache(const Tensor& x, const CacheRounding& rounding) {
  const OpCheck c("round_cache", activation_dtype());
  c.activation("x", x);
  c.rank("x", x, 3);
  const bool in_blocks = rounding.format == CacheFormat::Nvfp4;
  c.require(!in_blocks || x.dim(2) % kNvfp4Block == 0, "rows of " + str(x) + " are no whole number of blocks");
  c.require(!in_blocks || rounding.write.elements() == 1, "NVFP4 has one scale beside those of the blocks");
  c.require(!is_dynamic_only(rounding.format) || rounding.is_dynamic(), "this format has scales of its rows alone");
  c.require(rounding.format != CacheFormat::RotatedInt4 || rotated_together(x.dim(2)) <= kMostRotated,
            "rows of " + str(x) + " are turned by at most " + std::to_string(kMostRotated) + " channels together");
  if (!rounding.is_dynamic()) {
    const int64_t n = rounding.write.elements();
    c.f32("write", rounding.write);
    c.f32("read", rounding.read);
    c.require(n == 1 || n == x.dim(1) || n == x.dim(1) * x.dim(2), std::to_string(n) + " scales do not fit " + str(x));
    c.require(rounding.read.elements() == n, std::to_string(rounding.read.elements()) + " scales to read " +
                                                 std::to_string(n) + " rows are written with");
  }
  return do_round_cache(x, rounding);
}

Tensor Ops::rms_norm(const Tensor& x, const Tensor& gain, float eps) {
  const OpCheck c("rms_norm", activation_dtype());
  c.activation("x", x);
  if (gain) c.gain(gain, "x", x);
  return do_rms_norm(x, gain, eps);
}

Tensor Ops::add(const Tensor& x, const Tensor& y) {
  const OpCheck c("add", activation_dtype());
  c.activation("x", x);
  c.activation("y", y);
  c.same_shape("x", x, "y", y);
  return do_add(x, y);
}

Tensor Ops::glu(const Tensor& gate, const Tensor& up, Activation act) {
  const OpCheck c("glu", activation_dtype());
  c.activation("gate", gate);
  c.activation("up", up);
  c.same_shape("gate", gate, "up", up);
  return do_glu(gate, up, act);
}

Tensor Ops::sigmoid_mul(const Tensor& x, const Tensor& gate) {
  const OpCheck c("sigmoid_mul", activation_dtype());
  c.activation("x", x);
  c.activation("gate", gate);
  c.same_shape_or_column("gate", gate, "x", x);
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
  c.attention(q, spec);
  c.spans(q, spans, rows.size());
  c.last_keys(q, spans, spec.last_keys);
  c.picked(spec, q, k.dim(1), spans);
  c.distinct(rows);
  for (size_t i = 0; i < spans.size(); ++i) {
    const KvRows* kept = rows[i];
    c.fresh(kept && kept->n_tokens > 0, spans[i]);
    if (!kept) continue;
    c.follows(*kept, spans[i]);
    if (!kept->key) continue;
    c.state("kept keys", kept->key.view, {kept->key.view.dim(0), k.dim(1), k.dim(2)}, k.dtype);
    c.state("kept values", kept->value.view, {kept->key.view.dim(0), v.dim(1), v.dim(2)}, v.dtype);
  }
  return do_attention(q, k, v, spans, rows, spec);
}

Tensor Ops::attend_kept(const Tensor& q, std::span<const Span> spans, std::span<const KvRows* const> rows,
                        const AttentionSpec& spec) {
  const OpCheck c("attend_kept", activation_dtype());
  c.activation("q", q);
  c.rank("q", q, 3);
  c.attention(q, spec);
  c.spans(q, spans, rows.size());
  c.last_keys(q, spans, spec.last_keys);
  for (size_t i = 0; i < spans.size(); ++i) {
    const int64_t needed = spans[i].first_position + spans[i].n_tokens;
    c.require(rows[i] && rows[i]->key && rows[i]->n_tokens >= needed,
              "rows of " + std::to_string(needed) + " positions are needed, " +
                  std::to_string(rows[i] ? rows[i]->n_tokens : 0) + " are kept");
    const Tensor &key = rows[i]->key.view, &value = rows[i]->value.view;
    c.require(key.dtype == q.dtype && value.dtype == q.dtype && key.dim(2) == q.dim(2) && key.dim(1) > 0 &&
                  q.dim(1) % key.dim(1) == 0 && value.dim(1) == key.dim(1),
              "kept keys " + str(key) + " and values " + str(value) + " do not fit q " + str(q));
    c.picked(spec, q, key.dim(1), spans);
  }
  return do_attend_kept(q, spans, rows, spec);
}

int64_t AttentionSpec::first_key(int64_t position) const {
  const int64_t windowed = window > 0 ? std::max<int64_t>(0, position - window + 1) : 0;
  return chunk > 0 ? std::max(windowed, position / chunk * chunk) : windowed;
}

Owned Ops::pick_keys(const Tensor& q, const Tensor& weights, const Tensor& k, std::span<const Span> spans,
                     std::span<const KvRows* const> rows, const PickSpec& spec) {
  const OpCheck c("pick_keys", activation_dtype());
  c.activation("q", q);
  c.activation("k", k);
  c.rank("q", q, 3);
  c.require(k.shape == Shape{q.dim(0), 1, q.dim(2)}, "q " + str(q) + " does not fit k " + str(k));
  if (weights) c.state("weights", weights, {q.dim(0), q.dim(1)}, activation_dtype());
  c.require(spec.n_picked > 0, "picks " + std::to_string(spec.n_picked) + " keys");
  c.require(spec.block > 0, "blocks of " + std::to_string(spec.block) + " keys");
  c.require(spec.n_local >= 0 && spec.n_local <= spec.n_picked,
            std::to_string(spec.n_local) + " of " + std::to_string(spec.n_picked) + " picked blocks are near");
  c.spans(q, spans, rows.size());
  for (size_t i = 0; i < spans.size(); ++i) {
    const int64_t needed = spans[i].first_position + spans[i].n_tokens;
    c.fresh(rows[i] != nullptr, spans[i]);
    if (!rows[i] || spans[i].n_tokens == 0) continue;
    c.require(rows[i]->key && rows[i]->n_tokens >= needed, "keys of " + std::to_string(needed) +
                                                               " positions are needed, " +
                                                               std::to_string(rows[i]->n_tokens) + " are kept");
    const Tensor& kept = rows[i]->key.view;
    c.state("kept keys", kept, {kept.dim(0), 1, k.dim(2)}, k.dtype);
  }
  return do_pick_keys(q, weights, k, spans, rows, spec);
}

void Ops::keep_rows(const Tensor& k, const Tensor& v, std::span<const Span> spans, std::span<KvRows* const> rows) {
  const OpCheck c("keep_rows", activation_dtype());
  c.activation("k", k);
  c.rank("k", k, 3);
  if (v) {
    c.activation("v", v);
    c.rank("v", v, 3);
    c.require(k.dim(0) == v.dim(0) && k.dim(1) == v.dim(1), "k " + str(k) + " does not fit v " + str(v));
  }
  c.spans(k, spans, rows.size());
  c.distinct(rows);
  for (size_t i = 0; i < spans.size(); ++i)
    if (rows[i]) c.follows(*rows[i], spans[i]);
  do_keep_rows(k, v, spans, rows);
}

AttentionSample Ops::sample_attention(const Tensor& q, const Tensor& k, const Tensor& v, std::span<const Span> spans,
                                      std::span<const KvRows* const> rows, const AttentionSpec& spec,
                                      const SampleRequest& request) {
  const OpCheck c("sample_attention", activation_dtype());
  c.activation("q", q);
  c.rank("q", q, 3);
  c.attention(q, spec);
  c.spans(q, spans, rows.size());
  c.last_keys(q, spans, spec.last_keys);
  check_request(c, request, q);
  for (size_t i = 0; i < spans.size(); ++i) {
    c.require(i == 0 || spans[i].row >= spans[i - 1].row, "the spans are not in the order of rows");
    if (rows[i])
      check_kept(c, *rows[i], spans[i]);
    else
      c.fresh(false, spans[i]);
    const Tensor &key = rows[i] ? rows[i]->key.view : k, &value = rows[i] ? rows[i]->value.view : v;
    c.activation("keys", key);
    c.activation("values", value);
    c.rank("keys", key, 3);
    c.rank("values", value, 3);
    c.require(key.dim(2) == q.dim(2) && key.dim(1) > 0 && q.dim(1) % key.dim(1) == 0 && value.dim(1) == key.dim(1) &&
                  (rows[i] || (key.dim(0) == q.dim(0) && value.dim(0) == q.dim(0))),
              "keys " + str(key) + " and values " + str(value) + " do not fit q " + str(q));
    c.require(request.column_norms.shape == Shape{q.dim(1), value.dim(2)},
              "column norms " + str(request.column_norms) + " do not fit q " + str(q) + " and values " + str(value));
    c.picked(spec, q, key.dim(1), spans);
  }
  return do_sample_attention(q, k, v, spans, rows, spec, request);
}

float scale_of_rung(int rung) { return std::ldexp(1.0f, rung); }

double largest_of(SampleFormat format) { return format == SampleFormat::E4m3 ? 448 : 127; }

int lowest_rung(float absmax, SampleFormat format) {
  const double most = largest_of(format);
  int rung = kLeastRung;
  while (rung<kMostRung&& static_cast<double>(absmax)> most * static_cast<double>(scale_of_rung(rung))) ++rung;
  return rung;
}

Tensor Ops::causal_conv(const Tensor& x, const ConvWeights& weights, std::span<const Span> spans,
                        std::span<ConvState* const> states) {
  const OpCheck c("causal_conv", activation_dtype());
  const Tensor& w = weights.w;
  c.activation("x", x);
  c.rank("x", x, 2);
  c.f32("w", w);
  c.rank("w", w, 2);
  c.require(w.dim(0) == x.dim(1) && w.dim(1) >= 1, "w " + str(w) + " does not fit x " + str(x));
  if (weights.bias) {
    c.f32("bias", weights.bias);
    c.fits_columns("bias", weights.bias, "x", x);
  }
  c.spans(x, spans, states.size());
  c.distinct(states);
  for (size_t i = 0; i < spans.size(); ++i) {
    const bool kept = states[i] && states[i]->window;
    c.fresh(kept, spans[i]);
    if (kept) c.state("window", states[i]->window.view, {w.dim(1) - 1, x.dim(1)}, x.dtype);
  }
  return do_causal_conv(x, weights, spans, states);
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

Ops::DeltaGates Ops::channel_delta_gates(const Tensor& a, const Tensor& b, const Tensor& a_log, const Tensor& dt_bias) {
  const OpCheck c("channel_delta_gates", activation_dtype());
  c.activation("a", a);
  c.rank("a", a, 2);
  c.activation("b", b);
  c.rank("b", b, 2);
  c.f32("a_log", a_log);
  c.f32("dt_bias", dt_bias);
  c.require(a.dim(0) == b.dim(0) && b.dim(1) > 0 && a.dim(1) % b.dim(1) == 0,
            "a " + str(a) + " does not fit b " + str(b));
  c.fits_columns("a_log", a_log, "b", b);
  c.fits_columns("dt_bias", dt_bias, "a", a);
  return do_channel_delta_gates(a, b, a_log, dt_bias);
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
  const Shape by_head{v.dim(0), v.dim(1)}, by_channel{v.dim(0), v.dim(1), k.dim(2)};
  c.require(gates.g.shape == by_head || gates.g.shape == by_channel, "g " + str(gates.g) + " does not fit v " + str(v));
  c.require(gates.beta.shape == by_head, "beta " + str(gates.beta) + " does not fit v " + str(v));
  c.spans(v, spans, states.size());
  c.distinct(states);
  c.stored_alike(states);
  for (size_t i = 0; i < spans.size(); ++i) {
    const bool kept = states[i] && states[i]->s;
    c.fresh(kept, spans[i]);
    if (kept) c.state("state", states[i]->s.view, {v.dim(1), k.dim(2), v.dim(2)}, DType::F32);
  }
  return do_gated_delta_rule(q, k, v, gates, spans, states);
}

Tensor Ops::gated_rms_norm(const Tensor& x, const Tensor& z, const GatedNormSpec& spec) {
  const OpCheck c("gated_rms_norm", activation_dtype());
  c.activation("x", x);
  c.activation("z", z);
  c.same_shape("x", x, "z", z);
  c.f32("gain", spec.gain);
  c.fits_columns("gain", spec.gain, "x", x);
  c.require(spec.n_groups >= 1 && x.dim(-1) % spec.n_groups == 0,
            std::to_string(spec.n_groups) + " groups of rows of x " + str(x));
  return do_gated_rms_norm(x, z, spec);
}

}  // namespace kvcal
