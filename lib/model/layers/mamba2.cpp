#include "model/layers/mamba2.h"

#include <algorithm>

namespace kvcal {
namespace {

int64_t read_head_dim(const Json& config, int64_t inner, int64_t n_heads) {
  const Json* given = find_member(config, "mamba_d_head");
  const bool automatic = !given || (given->is_string() && given->get_ref<const std::string&>() == "auto");
  const int64_t head_dim = automatic ? std::max<int64_t>(1, inner / n_heads) : read_size(config, "mamba_d_head");
  if (head_dim * n_heads != inner)
    fail("mamba_n_heads " + std::to_string(n_heads) + " of width " + std::to_string(head_dim) +
         " do not make the inner width " + std::to_string(inner));
  return head_dim;
}

// The projected value meets a factor that was rounded to the dtype of the model.
float factor_in(const Ops& op, float factor) {
  return op.precision() == Precision::BF16 ? round_to_bf16(factor) : factor;
}

}  // namespace

Mamba2Dims read_mamba2_dims(const Json& config, int64_t hidden, float eps, int64_t inner) {
  Mamba2Dims d{};
  d.hidden = hidden;
  d.eps = eps;
  d.n_heads = read_size(config, "mamba_n_heads", 128);
  d.n_groups = read_size(config, "mamba_n_groups", 1);
  d.n_state = read_size(config, "mamba_d_state", 256);
  d.conv_kernel = read_size(config, "mamba_d_conv", 4);
  if (inner == 0) inner = read_size(config, "mamba_expand", 2) * hidden;
  d.head_dim = read_head_dim(config, inner, d.n_heads);
  d.conv_bias = get_bool_or(config, "mamba_conv_bias", true);
  d.in_bias = d.out_bias = read_bias(config, "mamba_proj_bias");
  check_mamba2_dims(d);
  return d;
}

void check_mamba2_dims(const Mamba2Dims& d) {
  if (d.n_heads % d.n_groups != 0)
    fail(std::to_string(d.n_heads) + " Mamba heads are not a multiple of " + std::to_string(d.n_groups) + " groups");
  check_product("an inner projection", {d.hidden, d.n_heads, d.head_dim});
  check_product("a projection of B and C", {d.hidden, d.n_groups, d.n_state});
  check_product("a state", {d.n_heads, d.head_dim, d.n_state});
  check_product("a convolution", {d.conv_kernel, d.n_heads, d.head_dim});
  check_product("a convolution", {d.conv_kernel, d.n_groups, d.n_state});
}

Mamba2::Mamba2(const Mamba2Dims& d, WeightLoader& loader, WeightBinder w)
    : dims_(d),
      scaled_(std::any_of(d.factors.begin(), d.factors.end(), [](float f) { return f != 1; })),
      out_(load_projection(loader, w, "out_proj", d.hidden, d.inner(), d.out_bias)),
      conv_(loader.load_f32(
          w("conv1d.weight", {d.channels(), 1, d.conv_kernel}).reshaped({d.channels(), d.conv_kernel}))),
      a_log_(loader.load_f32(w("A_log", {d.n_heads}))),
      dt_bias_(loader.load_f32(w("dt_bias", {d.n_heads}))),
      skip_(loader.load_f32(w("D", {d.n_heads}))) {
  const HostLinear in = projection(w, "in_proj", d.inner() + d.channels() + d.n_heads, d.hidden, d.in_bias);
  z_ = load_rows(loader, in, 0, d.inner());
  xbc_ = load_rows(loader, in, d.inner(), d.channels());
  dt_ = load_rows(loader, in, d.inner() + d.channels(), d.n_heads);
  if (d.conv_bias) conv_bias_ = loader.load_f32(w("conv1d.bias", {d.channels()}));
  if (d.normed) norm_ = loader.load_f32(w("norm.weight", {d.inner()}));
}

Tensor Mamba2::scaled_inputs(Ops& op, const Tensor& xbc) const {
  const int64_t n = dims_.inner(), s = dims_.states();
  const auto part = [&](int64_t from, int64_t width, float f) {
    return op.scale(op.columns(xbc, from, width), factor_in(op, f));
  };
  const Tensor b = part(n, s, dims_.factors[2]), c = part(n + s, s, dims_.factors[3]);
  return op.join(part(0, n, dims_.factors[1]), op.join(b, c));
}

Tensor Mamba2::forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap&, Tail) const {
  const Mamba2Dims& d = dims_;
  const int64_t t = batch.n_tokens();
  Tensor z = op.linear(h, z_), xbc = op.linear(h, xbc_), dt = op.linear(h, dt_);
  if (scaled_) {
    z = op.scale(z, factor_in(op, d.factors[0]));
    xbc = scaled_inputs(op, xbc);
    dt = op.scale(dt, factor_in(op, d.factors[4]));
  }
  const Tensor c = op.causal_conv(xbc, {conv_, conv_bias_}, batch.spans, states.conv_states(batch));
  const SsmInputs in{op.columns(c, 0, d.inner()).reshaped({t, d.n_heads, d.head_dim}), dt,
                     op.columns(c, d.inner(), d.states()).reshaped({t, d.n_groups, d.n_state}),
                     op.columns(c, d.inner() + d.states(), d.states()).reshaped({t, d.n_groups, d.n_state})};
  const Tensor y =
      op.ssd(in, {a_log_, dt_bias_, skip_}, batch.spans, states.ssm_states(batch)).reshaped({t, d.inner()});
  const GatedNormSpec norm{norm_, d.eps, GateActivation::Silu, d.order, d.n_groups};
  return op.linear(d.normed ? op.gated_rms_norm(y, z, norm) : op.glu(z, y), out_);
}

MixerSize Mamba2::size(const Mamba2Dims& d) {
  MixerSize s;
  const int64_t projected = d.inner() + d.channels() + d.n_heads;
  // The projection, the convolution's output and its parts, decay and step in F32, the scan's output, gated.
  s.activations = projected + 2 * d.channels() + 4 * d.n_heads + 2 * d.inner();
  const bool scaled = std::any_of(d.factors.begin(), d.factors.end(), [](float f) { return f != 1; });
  if (scaled) s.activations += d.inner() + 3 * d.channels() + 2 * d.states() + d.n_heads;
  s.conv_bytes = (d.conv_kernel - 1) * d.channels() * 2;
  s.state_bytes = s.conv_bytes + d.inner() * d.n_state * 4;
  s.state_row = d.n_state;
  s.state_heads = d.n_heads;
  return s;
}

}  // namespace kvcal
