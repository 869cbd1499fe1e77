// The short convolution of LFM2: y = C ⊙ conv(B ⊙ x), with B, C and x projections of the input (docs/model-notes.md,
// "Short convolution").
#pragma once

#include "model/layers/mixer.h"

namespace kvcal {

struct ShortConvDims {
  int64_t hidden, kernel;
  Bias bias = Bias::None;  // of both projections and the convolution
};

class ShortConv final : public Mixer {
 public:
  /// `w` is positioned at the module: in_proj, conv, out_proj.
  ShortConv(const ShortConvDims& dims, WeightLoader& loader, WeightBinder w);

  Tensor forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap,
                 Tail tail) const override;

  static MixerSize size(const ShortConvDims& dims);

 private:
  Linear b_, c_, x_, out_;  // [hidden, hidden]
  Owned conv_, conv_bias_;  // F32 [hidden, kernel], [hidden] or absent
};

}  // namespace kvcal
