// The linear-attention layer of Kimi-Linear (KDA): causal convolution, delta rule with a decay for every channel of a
// key, gated norm (docs/model-notes.md, "Kimi delta attention"). Owns recurrent state, no KV cache.
#pragma once

#include "model/layers/mixer.h"

namespace kvcal {

struct KimiDeltaDims {
  int64_t hidden, n_heads, head_dim, conv_kernel;  // head_dim: of keys and values alike
  float eps;

  int64_t inner() const { return n_heads * head_dim; }
  int64_t channels() const { return 3 * inner(); }  // of the convolution: q | k | v
};

/// linear_attn_config {num_heads, head_dim, short_conv_kernel_size}, or linear_num_heads, linear_head_dim and
/// linear_conv_kernel_dim beside it. Refuses sizes beyond any model.
KimiDeltaDims read_kimi_delta_dims(const Json& config, int64_t hidden, float eps);

class KimiDeltaAttention final : public Mixer {
 public:
  /// `w` is positioned at the module: q_proj, q_conv1d, f_a_proj, A_log, ... or, as the reference framework names them
  /// while it runs, conv1d and forget_gate.f_a_proj, forget_gate.A_log, ...
  KimiDeltaAttention(const KimiDeltaDims& dims, WeightLoader& loader, WeightBinder w);

  Tensor forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap,
                 Tail tail) const override;

  static MixerSize size(const KimiDeltaDims& dims);

 private:
  KimiDeltaDims dims_;
  Linear q_, k_, v_, out_;        // [inner, hidden] x3, [hidden, inner]
  Linear b_;                      // [n_heads, hidden]
  Linear f_a_, f_b_, g_a_, g_b_;  // of the decay and of the gate: [head_dim, hidden], [inner, head_dim]
  Owned conv_, a_log_, dt_bias_;  // F32 [channels, kernel], [n_heads], [inner]
  Owned norm_;                    // F32 [head_dim]
};

}  // namespace kvcal
