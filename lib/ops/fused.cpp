// Ops that belong together: their checks, and the compositions that define them.
#include "ops/op_check.h"

namespace kvcal {
Ops::SumAndNorm Ops::add_rms_norm(const Tensor& x, const Tensor& y, const Tensor& gain, float eps) {
  const OpCheck c("add_rms_norm", activation_dtype());
  c.activation("x", x);
  c.activation("y", y);
  c.same_shape("x", x, "y", y);
  c.gain(gain, "x", x);
  return do_add_rms_norm(x, y, gain, eps);
}

Tensor Ops::glu_mlp(const Tensor& x, const GluWeights& w) {
  const OpCheck c("glu_mlp", activation_dtype());
  c.activation("x", x);
  c.require(w.up && w.down, "a weight is not loaded");
  c.require(
      x.dim(-1) == w.up.in && w.down.in == w.up.out && (!w.gate || (w.gate.in == w.up.in && w.gate.out == w.up.out)),
      "x " + str(x) + " does not fit gate " + str(Shape{w.gate.out, w.gate.in}) + ", up " +
          str(Shape{w.up.out, w.up.in}) + ", down " + str(Shape{w.down.out, w.down.in}));
  return do_glu_mlp(round_input(x, w.up.input), w);
}

std::vector<Tensor> Ops::project_heads(const Tensor& x, const LinearGroup& w, const HeadsSpec& spec) {
  const OpCheck c("project_heads", activation_dtype());
  c.activation("x", x);
  c.rank("x", x, 2);
  c.require(w.parts.size() == spec.parts.size(),
            std::to_string(w.parts.size()) + " weights, but " + std::to_string(spec.parts.size()) + " kinds of heads");
  for (size_t i = 0; i < w.parts.size(); ++i) {
    const Linear& l = w.parts[i];
    const HeadsPart& part = spec.parts[i];
    c.require(l && l.in == x.dim(1) && part.head_dim > 0 && l.out % part.head_dim == 0,
              "weight " + std::to_string(i) + " " + str(Shape{l.out, l.in}) + " does not fit x " + str(x) +
                  " and heads of " + std::to_string(part.head_dim));
    const Tensor heads{nullptr, {x.dim(0), l.out / part.head_dim, part.head_dim}, x.dtype};
    if (part.gain) c.gain(part.gain, "heads", heads);
    if (part.turned) c.rope_table(spec.table, spec.rope, "heads", heads);
  }
  return do_project_heads(w.parts.empty() ? x : round_input(x, w.parts[0].input), w, spec);
}

// ---------------------------------------------------------------- compositions

Ops::SumAndNorm Ops::do_add_rms_norm(const Tensor& x, const Tensor& y, const Tensor& gain, float eps) {
  const Tensor sum = do_add(x, y);
  return {sum, do_rms_norm(sum, gain, eps)};
}

Tensor Ops::do_glu_mlp(const Tensor& x, const GluWeights& w) {
  const Tensor up = do_linear(x, w.up);
  const Tensor hidden = w.gate ? do_glu(do_linear(x, w.gate), up, w.act) : do_activate(up, w.act);
  return do_linear(round_input(hidden, w.down.input), w.down);
}

std::vector<Tensor> Ops::do_project_heads(const Tensor& x, const LinearGroup& w, const HeadsSpec& spec) {
  std::vector<Tensor> heads;
  for (size_t i = 0; i < w.parts.size(); ++i) {
    const HeadsPart& part = spec.parts[i];
    const Linear& l = w.parts[i];
    Tensor y = do_linear(x, l).reshaped({x.dim(0), l.out / part.head_dim, part.head_dim});
    if (part.gain) y = do_rms_norm(y, part.gain, spec.eps);
    if (part.turned) y = do_rope(y, spec.table, spec.rope);
    heads.push_back(y);
  }
  return heads;
}

}  // namespace kvcal
