// The checks of routing and experts.
#include "ops/op_check.h"

namespace kvcal {

Routing Ops::route(const Tensor& logits, const RoutingSpec& spec) {
  const OpCheck c("route", activation_dtype());
  c.require(logits.dtype == activation_dtype() || logits.dtype == DType::F32,
            "logits " + str(logits) + " should be activations or F32");
  c.rank("logits", logits, 2);
  const int64_t n = logits.dim(1), groups = spec.n_groups;
  c.require(groups >= 1 && n % groups == 0, std::to_string(groups) + " groups of logits " + str(logits));
  c.require(spec.k_groups >= 1 && spec.k_groups <= groups,
            std::to_string(spec.k_groups) + " of " + std::to_string(groups) + " groups");
  c.require(groups == 1 || (spec.group_best >= 1 && spec.group_best <= n / groups),
            "the best " + std::to_string(spec.group_best) + " of a group of " + std::to_string(n / groups));
  c.require(spec.k >= 1 && spec.k <= n / groups * spec.k_groups,
            std::to_string(spec.k) + " experts of logits " + str(logits));
  if (spec.bias) {
    c.f32("bias", spec.bias);
    c.fits_columns("bias", spec.bias, "logits", logits);
  }
  return do_route(logits, spec);
}

Tensor Ops::experts(const Tensor& x, const Routing& routing, std::span<const GluWeights> experts) {
  const OpCheck c("experts", activation_dtype());
  c.activation("x", x);
  c.rank("x", x, 2);
  c.require(routing.experts.dtype == DType::I32, "experts " + str(routing.experts) + " should be I32");
  c.f32("weights", routing.weights);
  c.rank("experts", routing.experts, 2);
  c.same_shape("experts", routing.experts, "weights", routing.weights);
  c.require(routing.experts.dim(0) == x.dim(0), "experts " + str(routing.experts) + " do not fit x " + str(x));
  c.require(!experts.empty(), "no experts");
  const int64_t ffn = experts[0].up.out, dim = x.dim(1);
  for (size_t e = 0; e < experts.size(); ++e) {
    const GluWeights& w = experts[e];
    const auto fits = [](const Linear& l, int64_t out, int64_t in) { return l && l.out == out && l.in == in; };
    const bool gated = static_cast<bool>(experts[0].gate), gate_fits = gated ? fits(w.gate, ffn, dim) : !w.gate;
    c.require(gate_fits && fits(w.up, ffn, dim) && fits(w.down, dim, ffn) && w.act == experts[0].act,
              "expert " + std::to_string(e) + " has gate " + str(Shape{w.gate.out, w.gate.in}) + ", up " +
                  str(Shape{w.up.out, w.up.in}) + ", down " + str(Shape{w.down.out, w.down.in}) + "; does not fit x " +
                  str(x) + " or the first expert");
    c.require(w.up.input == experts[0].up.input && w.down.input == experts[0].down.input,
              "inputs of expert " + std::to_string(e) + " are rounded otherwise than those of the first");
  }
  if (routing.experts.device == Device::Host)
    for (int64_t i = 0; i < routing.experts.elements(); ++i) {
      const int32_t e = routing.experts.as<int32_t>()[i];
      c.require(e >= 0 && static_cast<size_t>(e) < experts.size(),
                "expert " + std::to_string(e) + " chosen of " + std::to_string(experts.size()));
    }
  return do_experts(round_input(x, experts[0].up.input), routing, experts);
}

}  // namespace kvcal
