// The Mamba-1 mixer with norms on Δ, B and C: causal convolution, selective scan, gate (docs/model-notes.md, "Mamba").
#pragma once

#include "model/layers/mixer.h"

namespace kvcal {

struct MambaDims {
  int64_t hidden, inner, n_state, rank, conv_kernel;
  float eps;
  bool conv_bias = true;
  Bias bias = Bias::None;  // of in_proj and out_proj
};

/// Refuses sizes beyond any model, and more states than the scan takes.
void check_mamba_dims(const MambaDims& dims);

class Mamba final : public Mixer {
 public:
  /// `w` is positioned at the module: in_proj, conv1d, x_proj, dt_proj, dt_layernorm, ...
  Mamba(const MambaDims& dims, WeightLoader& loader, WeightBinder w);

  Tensor forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap,
                 Tail tail) const override;

  static MixerSize size(const MambaDims& dims);

 private:
  MambaDims dims_;
  Linear x_, z_;                     // [inner, hidden]
  Linear to_dt_, to_b_, to_c_;       // [rank, inner], [n_state, inner] x2
  Linear dt_, out_;                  // [inner, rank], [hidden, inner]
  Owned conv_, conv_bias_;           // F32 [inner, kernel], [inner] or absent
  Owned a_log_, dt_bias_, skip_;     // F32 [inner, n_state], [inner] x2
  Owned dt_norm_, b_norm_, c_norm_;  // [rank], [n_state] x2
};

}  // namespace kvcal
