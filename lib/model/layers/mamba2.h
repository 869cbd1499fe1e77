// The Mamba-2 mixer: causal convolution, state-space duality, gated norm (docs/model-notes.md, "Mamba"). Servers clamp
// Δ at 0 only and ignore time_step_limit and time_step_min; so do we.
#pragma once

#include <array>

#include "model/layers/mixer.h"

namespace kvcal {

struct Mamba2Dims {
  int64_t hidden, n_heads, head_dim, n_groups, n_state, conv_kernel;
  float eps;
  bool conv_bias = true;
  Bias in_bias = Bias::None, out_bias = Bias::None;
  bool normed = true;  // else only gated: y silu(z)
  GateOrder order = GateOrder::BeforeNorm;
  std::array<float, 5> factors = {1, 1, 1, 1, 1};  // of the projected z, x, B, C, dt

  int64_t inner() const { return n_heads * head_dim; }
  int64_t states() const { return n_groups * n_state; }
  int64_t channels() const { return inner() + 2 * states(); }  // of the convolution: x | B | C
};

/// The keys mamba_n_heads, mamba_d_head ("auto" = inner width / heads), mamba_n_groups, mamba_d_state, mamba_d_conv,
/// mamba_expand, mamba_conv_bias, mamba_proj_bias; the inner width is `inner`, or 0: mamba_expand · hidden.
Mamba2Dims read_mamba2_dims(const Json& config, int64_t hidden, float eps, int64_t inner = 0);

/// Refuses heads that are no multiple of the groups, and sizes beyond any model.
void check_mamba2_dims(const Mamba2Dims& dims);

class Mamba2 final : public Mixer {
 public:
  /// `w` is positioned at the module: in_proj, conv1d, A_log, ...
  Mamba2(const Mamba2Dims& dims, WeightLoader& loader, WeightBinder w);

  Tensor forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap,
                 Tail tail) const override;

  static MixerSize size(const Mamba2Dims& dims);

 private:
  Tensor scaled_inputs(Ops& op, const Tensor& xbc) const;

  Mamba2Dims dims_;
  bool scaled_;
  Linear z_, xbc_, dt_;           // [inner, hidden], [channels, hidden], [n_heads, hidden]
  Linear out_;                    // [hidden, inner]
  Owned conv_, conv_bias_;        // F32 [channels, kernel], [channels] or absent
  Owned a_log_, dt_bias_, skip_;  // F32 [n_heads]
  Owned norm_;                    // F32 [inner], or absent
};

}  // namespace kvcal
