#include "model/layers/mamba.h"

namespace kvcal {
namespace {

Owned load_norm(WeightLoader& loader, WeightBinder& w, const char* name, int64_t n) {
  return loader.load_gain(w(name, {n}), Gain::Plain);
}

}  // namespace

void check_mamba_dims(const MambaDims& d) {
  if (d.n_state > kMostScanStates)
    fail("mamba_d_state is " + std::to_string(d.n_state) + ", expected at most " + std::to_string(kMostScanStates));
  check_product("an inner projection", {d.hidden, d.inner});
  check_product("a projection of the step", {d.inner, d.rank});
  check_product("a convolution", {d.inner, d.conv_kernel});
}

Mamba::Mamba(const MambaDims& d, WeightLoader& loader, WeightBinder w)
    : dims_(d),
      dt_(load_projection(loader, w, "dt_proj", d.inner, d.rank)),
      out_(load_projection(loader, w, "out_proj", d.hidden, d.inner, d.bias)),
      conv_(loader.load_f32(w("conv1d.weight", {d.inner, 1, d.conv_kernel}).reshaped({d.inner, d.conv_kernel}))),
      a_log_(loader.load_f32(w("A_log", {d.inner, d.n_state}))),
      dt_bias_(loader.load_f32(w("dt_proj.bias", {d.inner}))),  // added in F32, by the scan
      skip_(loader.load_f32(w("D", {d.inner}))),
      dt_norm_(load_norm(loader, w, "dt_layernorm.weight", d.rank)),
      b_norm_(load_norm(loader, w, "b_layernorm.weight", d.n_state)),
      c_norm_(load_norm(loader, w, "c_layernorm.weight", d.n_state)) {
  const HostLinear in = projection(w, "in_proj", 2 * d.inner, d.hidden, d.bias);
  x_ = load_rows(loader, in, 0, d.inner);
  z_ = load_rows(loader, in, d.inner, d.inner);
  const HostLinear parameters = projection(w, "x_proj", d.rank + 2 * d.n_state, d.inner);
  to_dt_ = load_rows(loader, parameters, 0, d.rank);
  to_b_ = load_rows(loader, parameters, d.rank, d.n_state);
  to_c_ = load_rows(loader, parameters, d.rank + d.n_state, d.n_state);
  if (d.conv_bias) conv_bias_ = loader.load_f32(w("conv1d.bias", {d.inner}));
}

Tensor Mamba::forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap&, Tail) const {
  const Tensor z = op.linear(h, z_);
  const Tensor x = op.causal_conv(op.linear(h, x_), {conv_, conv_bias_}, batch.spans, states.conv_states(batch));
  const Tensor dt = op.linear(op.rms_norm(op.linear(x, to_dt_), dt_norm_, dims_.eps), dt_);
  const Tensor b = op.rms_norm(op.linear(x, to_b_), b_norm_, dims_.eps);
  const Tensor c = op.rms_norm(op.linear(x, to_c_), c_norm_, dims_.eps);
  const Tensor y = op.selective_scan({x, dt, b, c}, {a_log_, dt_bias_, skip_}, batch.spans, states.ssm_states(batch));
  return op.linear(op.glu(z, y), out_);
}

MixerSize Mamba::size(const MambaDims& d) {
  MixerSize s;
  // Both projections, the convolution's output, Δ, the scan's output, gated; Δ's low rank, B and C with their norms.
  s.activations = 6 * d.inner + 2 * d.rank + 4 * d.n_state;
  s.conv_bytes = (d.conv_kernel - 1) * d.inner * 2;
  s.state_bytes = s.conv_bytes + d.inner * d.n_state * 4;
  s.state_row = d.n_state;
  s.state_heads = 1;
  return s;
}

}  // namespace kvcal
