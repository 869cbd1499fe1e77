// Ops that belong together: their checks, and the compositions that define them.
#include "ops/op_check.h"

namespace kvcal {
namespace {

/// Servers that keep the weights as one have one rounding for all.
InputRounding common_input(const OpCheck& c, std::span<const HostLinear> weights) {
  InputRounding input = weights[0].input;
  for (const HostLinear& w : weights) {
    c.require(alike(input, w.input),
              "inputs of weights that multiply the same x are to be rounded in different ways; servers keep these "
              "weights as one and refuse that");
    input = common(input, w.input);
  }
  return input;
}

}  // namespace

LinearGroup Ops::load_linears(std::span<const HostLinear> weights) {
  const OpCheck c("load_linears", activation_dtype());
  c.require(!weights.empty(), "no weights");
  for (const HostLinear& w : weights) {
    c.linear(w);
    c.require(w.weight.dim(1) == weights[0].weight.dim(1),
              "weights " + str(weights[0].weight) + " and " + str(w.weight) + " do not multiply the same x");
  }
  LinearGroup group = do_load_linears(weights);
  const InputRounding input = common_input(c, weights);
  for (Linear& part : group.parts) part.input = input;
  if (group.all) group.all.input = input;
  return group;
}

GluWeights Ops::load_glu(const HostLinear& gate, const HostLinear& up, const HostLinear& down, Activation act) {
  const HostLinear both[] = {gate, up};
  const LinearGroup group = load_linears(both);
  return {group.parts[0], group.parts[1], load_linear(down.weight, down.bias, down.input), group.all, act};
}

GluWeights Ops::load_mlp(const HostLinear& up, const HostLinear& down, Activation act) {
  return {{}, load_linear(up.weight, up.bias, up.input), load_linear(down.weight, down.bias, down.input), {}, act};
}

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

LinearGroup Ops::do_load_linears(std::span<const HostLinear> weights) {
  LinearGroup group;
  for (const HostLinear& w : weights) group.parts.push_back(do_load_linear(w.weight, w.bias));
  return group;
}

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
