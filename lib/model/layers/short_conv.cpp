#include "model/layers/short_conv.h"

namespace kvcal {

ShortConv::ShortConv(const ShortConvDims& d, WeightLoader& loader, WeightBinder w)
    : out_(load_projection(loader, w, "out_proj", d.hidden, d.hidden, d.bias)),
      conv_(loader.load_f32(w("conv.weight", {d.hidden, 1, d.kernel}).reshaped({d.hidden, d.kernel}))) {
  const HostLinear in = projection(w, "in_proj", 3 * d.hidden, d.hidden, d.bias);
  Linear* parts[] = {&b_, &c_, &x_};
  for (int64_t i = 0; i < 3; ++i) *parts[i] = load_rows(loader, in, i * d.hidden, d.hidden);
  if (d.bias == Bias::Present) conv_bias_ = loader.load_f32(w("conv.bias", {d.hidden}));
}

Tensor ShortConv::forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap&, Tail) const {
  const Tensor u = op.mul(op.linear(h, b_), op.linear(h, x_));
  const Tensor y = op.causal_conv(u, {conv_, conv_bias_, false}, batch.spans, states.conv_states(batch));
  return op.linear(op.mul(op.linear(h, c_), y), out_);
}

MixerSize ShortConv::size(const ShortConvDims& d) {
  MixerSize s;
  s.activations = 6 * d.hidden;  // three projections, both products, the convolution
  s.conv_bytes = s.state_bytes = (d.kernel - 1) * d.hidden * 2;
  return s;
}

}  // namespace kvcal
