#include "model/layers/kimi_delta_attention.h"

#include "model/layers/conv_filters.h"

namespace kvcal {
namespace {

constexpr float kL2Epsilon = 1e-6f;  // of the reference kernels, no config key

/// [n_heads], stored as that or as [1, 1, n_heads, 1].
Owned load_a_log(int64_t n_heads, WeightLoader& loader, const WeightBinder& w) {
  const TensorInfo* found = w.info("A_log");
  const bool flat = found && found->shape.rank() == 1;
  return loader.load_f32(w("A_log", flat ? Shape{n_heads} : Shape{1, 1, n_heads, 1}).reshaped({n_heads}));
}

}  // namespace

KimiDeltaDims read_kimi_delta_dims(const Json& config, int64_t hidden, float eps) {
  const Json* own = find_member(config, "linear_attn_config");
  if (own && !own->is_object()) fail("linear_attn_config is not an object");
  const auto size = [&](const char* key, const char* beside, int64_t fallback) {
    return own && find_member(*own, key) ? read_size(*own, key) : read_size(config, beside, fallback);
  };
  KimiDeltaDims d{};
  d.hidden = hidden;
  d.eps = eps;
  d.n_heads = size("num_heads", "linear_num_heads", 32);
  d.head_dim = size("head_dim", "linear_head_dim", 128);
  d.conv_kernel = size("short_conv_kernel_size", "linear_conv_kernel_dim", 4);
  check_product("an inner projection", {d.hidden, d.n_heads, d.head_dim});
  check_product("a state", {d.n_heads, d.head_dim, d.head_dim});
  check_product("a convolution", {d.conv_kernel, d.n_heads, d.head_dim});
  return d;
}

KimiDeltaAttention::KimiDeltaAttention(const KimiDeltaDims& d, WeightLoader& loader, WeightBinder w)
    : dims_(d),
      q_(load_projection(loader, w, "q_proj", d.inner(), d.hidden)),
      k_(load_projection(loader, w, "k_proj", d.inner(), d.hidden)),
      v_(load_projection(loader, w, "v_proj", d.inner(), d.hidden)),
      out_(load_projection(loader, w, "o_proj", d.hidden, d.inner())),
      b_(load_projection(loader, w, "b_proj", d.n_heads, d.hidden)),
      g_a_(load_projection(loader, w, "g_a_proj", d.head_dim, d.hidden)),
      g_b_(load_projection(loader, w, "g_b_proj", d.inner(), d.head_dim)),
      conv_(load_conv_filters({d.inner(), d.inner(), d.conv_kernel}, loader, w)),
      norm_(loader.load_f32(w("o_norm.weight", {d.head_dim}))) {
  WeightBinder decay = w.has("forget_gate.A_log") ? w.at("forget_gate.") : w;
  f_a_ = load_projection(loader, decay, "f_a_proj", d.head_dim, d.hidden);
  f_b_ = load_projection(loader, decay, "f_b_proj", d.inner(), d.head_dim);
  a_log_ = load_a_log(d.n_heads, loader, decay);
  dt_bias_ = loader.load_f32(decay("dt_bias", {d.inner()}));
}

Tensor KimiDeltaAttention::forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap&,
                                   Tail) const {
  const KimiDeltaDims& d = dims_;
  const int64_t t = batch.n_tokens();
  const Shape heads{t, d.n_heads, d.head_dim};
  const Tensor qkv = op.join(op.linear(h, q_), op.join(op.linear(h, k_), op.linear(h, v_)));
  const Tensor c = op.causal_conv(qkv, {conv_}, batch.spans, states.conv_states(batch));
  const Tensor q = op.l2_norm(op.columns(c, 0, d.inner()).reshaped(heads), kL2Epsilon);
  const Tensor k = op.l2_norm(op.columns(c, d.inner(), d.inner()).reshaped(heads), kL2Epsilon);
  const Tensor v = op.columns(c, 2 * d.inner(), d.inner()).reshaped(heads);
  const Tensor decay = op.linear(op.linear(h, f_a_), f_b_);
  const Ops::DeltaGates gates = op.channel_delta_gates(decay, op.linear(h, b_), a_log_, dt_bias_);
  const Tensor o = op.gated_delta_rule(q, k, v, gates, batch.spans, states.delta_states(batch));
  const Tensor gate = op.linear(op.linear(h, g_a_), g_b_).reshaped(heads);
  const Tensor y = op.gated_rms_norm(o, gate, {norm_, d.eps, GateActivation::Sigmoid});
  return op.linear(y.reshaped({t, d.inner()}), out_);
}

MixerSize KimiDeltaAttention::size(const KimiDeltaDims& d) {
  MixerSize s;
  // Projections, joined in two steps, the convolution's output and its parts; normed keys and queries; the decay and
  // its F32 form; what the delta rule gives, its gate, both together.
  s.activations = (3 + 5 + 6 + 2 + 3 + 3) * d.inner() + 2 * d.head_dim + 3 * d.n_heads;
  s.conv_bytes = (d.conv_kernel - 1) * d.channels() * 2;
  s.state_bytes = s.conv_bytes + d.inner() * d.head_dim * 4;
  s.state_row = d.head_dim;
  s.state_heads = d.n_heads;
  return s;
}

}  // namespace kvcal
