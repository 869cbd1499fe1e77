// The checks of ops that treat every row alone.
#include "ops/op_check.h"

namespace kvcal {

Tensor Ops::linear_per_head(const Tensor& x, std::span<const Linear> heads) {
  const OpCheck c("linear_per_head", activation_dtype());
  c.activation("x", x);
  c.rank("x", x, 3);
  c.require(!heads.empty() && static_cast<int64_t>(heads.size()) == x.dim(1),
            std::to_string(heads.size()) + " weights for the heads of x " + str(x));
  for (const Linear& w : heads) {
    c.require(static_cast<bool>(w), "a weight is not loaded");
    c.require(!w.input, "a weight has an input rounding");
    c.require(w.in == x.dim(2) && w.out == heads[0].out,
              "x " + str(x) + " does not fit weight " + str(Shape{w.out, w.in}) + ", or it differs from the first");
  }
  return do_linear_per_head(x, heads);
}

Tensor Ops::layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, float eps) {
  const OpCheck c("layer_norm", activation_dtype());
  c.activation("x", x);
  if (gain) {
    c.f32("gain", gain);
    const int64_t turns = gain.shape.rank() == 2 ? gain.dim(0) : 1;
    c.require(gain.dim(-1) == x.dim(-1) && turns > 0 && (turns == 1 || (x.shape.rank() >= 2 && x.dim(-2) == turns)),
              "gain " + str(gain) + " does not fit x " + str(x));
  }
  if (bias) {
    c.f32("bias", bias);
    c.fits_columns("bias", bias, "x", x);
  }
  return do_layer_norm(x, gain, bias, eps);
}

Tensor Ops::scale(const Tensor& x, float factor) {
  const OpCheck c("scale", activation_dtype());
  if (x.dtype != DType::F32) c.activation("x", x);
  return do_scale(x, factor);
}

Tensor Ops::mul(const Tensor& x, const Tensor& y) {
  const OpCheck c("mul", activation_dtype());
  c.activation("x", x);
  c.require(y.dtype == activation_dtype() || y.dtype == DType::F32, "y " + str(y) + " should be F32 or as x");
  c.same_shape_or_column("y", y, "x", x);
  return do_mul(x, y);
}

Tensor Ops::activate(const Tensor& x, Activation act) {
  const OpCheck c("activate", activation_dtype());
  c.activation("x", x);
  c.require(!needs_gate(act), "the clamped and the capped activation need a gate");
  return do_activate(x, act);
}

Tensor Ops::softcap(const Tensor& x, float cap) {
  const OpCheck c("softcap", activation_dtype());
  c.activation("x", x);
  c.require(cap > 0.0f, "softcap " + std::to_string(cap));
  return do_softcap(x, cap);
}

Tensor Ops::clamp(const Tensor& x, float least, float most) {
  const OpCheck c("clamp", activation_dtype());
  c.activation("x", x);
  c.require(least <= most, "bounds " + std::to_string(least) + " and " + std::to_string(most));
  return do_clamp(x, least, most);
}

Tensor Ops::xielu(const Tensor& x, const XieluWeights& w) {
  const OpCheck c("xielu", activation_dtype());
  c.activation("x", x);
  for (const Tensor* t : {&w.alpha_p, &w.alpha_n, &w.beta, &w.eps}) {
    c.f32("a parameter", *t);
    c.require(t->elements() == 1, "parameter " + str(*t) + " is not one number");
  }
  return do_xielu(x, w);
}

Tensor Ops::mix_streams(const Tensor& x, const Tensor& w) {
  const OpCheck c("mix_streams", activation_dtype());
  c.activation("x", x);
  c.rank("x", x, 3);
  c.activation("w", w);
  c.require(w.shape.rank() == 2 && w.dim(0) == x.dim(0) && x.dim(1) > 0 && w.dim(1) % x.dim(1) == 0,
            "w " + str(w) + " does not fit x " + str(x));
  return do_mix_streams(x, w);
}

Tensor Ops::match_rms(const Tensor& x, const Tensor& like, float least) {
  const OpCheck c("match_rms", activation_dtype());
  c.activation("x", x);
  c.activation("like", like);
  c.same_shape("x", x, "like", like);
  return do_match_rms(x, like, least);
}

Tensor Ops::keep_above(const Tensor& x, float deviations) {
  OpCheck("keep_above", activation_dtype()).activation("x", x);
  return do_keep_above(x, deviations);
}

Tensor Ops::join(const Tensor& a, const Tensor& b) {
  const OpCheck c("join", activation_dtype());
  c.activation("a", a);
  c.activation("b", b);
  const int rank = a.shape.rank();
  bool fits = b.shape.rank() == rank;
  for (int i = 0; fits && i + 1 < rank; ++i) fits = a.dim(i) == b.dim(i) || (i == 1 && rank == 3 && b.dim(1) == 1);
  c.require(fits, "b " + str(b) + " does not fit beside a " + str(a));
  return do_join(a, b);
}

}  // namespace kvcal
