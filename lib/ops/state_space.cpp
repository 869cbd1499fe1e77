// The checks of state-space ops.
#include "ops/op_check.h"

namespace kvcal {
namespace {

void check_states(const OpCheck& c, const SsmInputs& in, std::span<const Span> spans, std::span<SsmState* const> states,
                  const Shape& state) {
  c.spans(in.x, spans, states.size());
  c.distinct(states);
  c.stored_alike(states);
  for (size_t i = 0; i < spans.size(); ++i) {
    const bool kept = states[i] && states[i]->s;
    c.fresh(kept, spans[i]);
    if (kept) c.state("state", states[i]->s.view, state, DType::F32);
  }
}

void check_weights(const OpCheck& c, const SsmWeights& w, const Shape& a_log, int64_t n) {
  c.state("a_log", w.a_log, a_log, DType::F32);
  c.state("dt_bias", w.dt_bias, {n}, DType::F32);
  c.state("d", w.d, {n}, DType::F32);
}

}  // namespace

Tensor Ops::ssd(const SsmInputs& in, const SsmWeights& w, std::span<const Span> spans,
                std::span<SsmState* const> states) {
  const OpCheck c("ssd", activation_dtype());
  for (const auto& [name, t] : {std::pair{"x", in.x}, {"b", in.b}, {"c", in.c}}) {
    c.activation(name, t);
    c.rank(name, t, 3);
  }
  c.activation("dt", in.dt);
  const int64_t tokens = in.x.dim(0), heads = in.x.dim(1), groups = in.b.dim(1);
  c.require(in.dt.shape == Shape{tokens, heads}, "dt " + str(in.dt) + " does not fit x " + str(in.x));
  c.same_shape("b", in.b, "c", in.c);
  c.require(in.b.dim(0) == tokens && groups > 0 && heads % groups == 0,
            "b " + str(in.b) + " does not fit x " + str(in.x));
  check_weights(c, w, {heads}, heads);
  check_states(c, in, spans, states, {heads, in.b.dim(2), in.x.dim(2)});
  return do_ssd(in, w, spans, states);
}

Tensor Ops::selective_scan(const SsmInputs& in, const SsmWeights& w, std::span<const Span> spans,
                           std::span<SsmState* const> states) {
  const OpCheck c("selective_scan", activation_dtype());
  for (const auto& [name, t] : {std::pair{"x", in.x}, {"dt", in.dt}, {"b", in.b}, {"c", in.c}}) {
    c.activation(name, t);
    c.rank(name, t, 2);
  }
  c.same_shape("dt", in.dt, "x", in.x);
  c.same_shape("b", in.b, "c", in.c);
  const int64_t channels = in.x.dim(1), n_state = in.b.dim(1);
  c.require(in.b.dim(0) == in.x.dim(0), "b " + str(in.b) + " does not fit x " + str(in.x));
  c.require(n_state >= 1 && n_state <= kMostScanStates, std::to_string(n_state) + " states a channel, at most " +
                                                            std::to_string(kMostScanStates) + " are possible");
  check_weights(c, w, {channels, n_state}, channels);
  check_states(c, in, spans, states, {channels, n_state});
  return do_selective_scan(in, w, spans, states);
}

}  // namespace kvcal
