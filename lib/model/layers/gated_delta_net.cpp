#include "model/layers/gated_delta_net.h"

#include "model/layers/conv_filters.h"

namespace kvcal {

constexpr float kL2Epsilon = 1e-6f;  // of the reference kernels, no config key

DeltaNetDims read_delta_net_dims(const Json& config, int64_t hidden, float eps) {
  DeltaNetDims d{};
  d.hidden = hidden;
  d.n_key_heads = read_size(config, "linear_num_key_heads", 16);
  d.n_value_heads = read_size(config, "linear_num_value_heads", 32);
  d.key_dim = read_size(config, "linear_key_head_dim", 128);
  d.value_dim = read_size(config, "linear_value_head_dim", 128);
  d.conv_kernel = read_size(config, "linear_conv_kernel_dim", 4);
  d.eps = eps;
  if (d.n_value_heads % d.n_key_heads != 0)
    fail("linear_num_value_heads " + std::to_string(d.n_value_heads) + " is not a multiple of linear_num_key_heads " +
         std::to_string(d.n_key_heads));
  const std::string gate = get_string_or(config, "output_gate_type", "silu");
  if (gate == "sigmoid") {
    d.gate = GateActivation::Sigmoid;
  } else if (gate != "silu" && gate != "swish") {
    fail_unknown("output_gate_type", gate, std::vector<std::string>{"sigmoid", "silu", "swish"});
  }
  return d;
}

GatedDeltaNet::GatedDeltaNet(const DeltaNetDims& dims, DeltaNetInputs inputs, WeightLoader& loader, WeightBinder w,
                             const DeltaNetNames& names)
    : dims_(dims),
      in_(std::move(inputs)),
      out_(load_projection(loader, w, names.out, dims.hidden, dims.values())),
      conv_(load_conv_filters({dims.keys(), dims.values(), dims.conv_kernel}, loader, w)),
      a_log_(loader.load_f32(w("A_log", {dims.n_value_heads}))),
      dt_bias_(loader.load_f32(w("dt_bias", {dims.n_value_heads}))),
      norm_(loader.load_f32(w(std::string(names.norm) + ".weight", {dims.value_dim}))) {}

Tensor GatedDeltaNet::forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap&, Tail) const {
  const DeltaNetDims& d = dims_;
  const int64_t t = batch.n_tokens();
  Tensor qkv = op.linear(h, in_.qkv.front());
  for (size_t i = 1; i < in_.qkv.size(); ++i) qkv = op.join(qkv, op.linear(h, in_.qkv[i]));
  const Tensor c = op.causal_conv(qkv, {conv_}, batch.spans, states.conv_states(batch));
  const Tensor q = op.columns(c, 0, d.keys()).reshaped({t, d.n_key_heads, d.key_dim});
  const Tensor k = op.columns(c, d.keys(), d.keys()).reshaped({t, d.n_key_heads, d.key_dim});
  const Tensor v = op.columns(c, 2 * d.keys(), d.values()).reshaped({t, d.n_value_heads, d.value_dim});
  Ops::DeltaGates gates = op.delta_gates(op.linear(h, in_.a), op.linear(h, in_.b), a_log_, dt_bias_);
  if (d.beta_factor != 1) gates.beta = op.scale(gates.beta, d.beta_factor);
  const Tensor o = op.gated_delta_rule(op.l2_norm(q, kL2Epsilon), op.l2_norm(k, kL2Epsilon), v, gates, batch.spans,
                                       states.delta_states(batch));
  const Tensor z = op.linear(h, in_.z).reshaped({t, d.n_value_heads, d.value_dim});
  const Tensor y = op.gated_rms_norm(o, z, {norm_, d.eps, d.gate});
  return op.linear(y.reshaped({t, d.values()}), out_);
}

MixerSize GatedDeltaNet::size(const DeltaNetDims& d) {
  MixerSize s;
  // The convolution's input, output and parts, normed keys, the delta rule and its gate.
  s.activations = 3 * d.channels() + 2 * d.keys() + 3 * d.values() + 8 * d.n_value_heads;
  s.conv_bytes = (d.conv_kernel - 1) * d.channels() * 2;
  s.state_bytes = s.conv_bytes + d.n_value_heads * d.key_dim * d.value_dim * 4;
  s.state_row = d.key_dim;
  s.state_heads = d.n_value_heads;
  return s;
}

}  // namespace kvcal
