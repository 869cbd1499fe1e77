// The linear-attention layer of Qwen3-Next, Qwen3.5 and OLMo Hybrid: causal convolution, gated delta rule, gated norm
// (docs/model-notes.md, "Gated delta rule"). Owns recurrent state, no KV cache.
#pragma once

#include "model/layers/mixer.h"

namespace kvcal {

struct DeltaNetDims {
  int64_t hidden, n_key_heads, n_value_heads, key_dim, value_dim, conv_kernel;  // key_dim, value_dim: per head
  float eps;
  GateActivation gate = GateActivation::Silu;
  float beta_factor = 1;

  int64_t keys() const { return n_key_heads * key_dim; }
  int64_t values() const { return n_value_heads * value_dim; }
  int64_t channels() const { return 2 * keys() + values(); }  // of the convolution: q | k | v
};

/// linear_* keys of a (text) config, with the families' common defaults.
DeltaNetDims read_delta_net_dims(const Json& config, int64_t hidden, float eps);

/// The input projections, however the checkpoint stores them.
struct DeltaNetInputs {
  std::vector<Linear> qkv;  // [channels, hidden] together
  Linear z, b, a;           // [values, hidden], [n_value_heads, hidden] x2
};

struct DeltaNetNames {
  const char *out = "out_proj", *norm = "norm";
};

class GatedDeltaNet final : public Mixer {
 public:
  /// `w` is positioned at linear_attn.; the rest of its tensors are read here.
  GatedDeltaNet(const DeltaNetDims& dims, DeltaNetInputs inputs, WeightLoader& loader, WeightBinder w,
                const DeltaNetNames& names = {});

  /// h [tokens, hidden] (normed) -> the branch's output [tokens, hidden]; the sequences' states are advanced.
  Tensor forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap,
                 Tail tail) const override;

  static MixerSize size(const DeltaNetDims& dims);

 private:
  DeltaNetDims dims_;
  DeltaNetInputs in_;
  Linear out_;                    // [hidden, values]
  Owned conv_, a_log_, dt_bias_;  // F32 [channels, kernel], [n_value_heads] x2
  Owned norm_;                    // F32 [value_dim]
};

}  // namespace kvcal
