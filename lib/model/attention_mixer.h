// Grouped-query attention as a mixer: with RoPE or without, biases, norms of each head of q and k.
#pragma once

#include "model/mixer.h"

namespace kvcal {

struct AttentionVariant {
  Bias qkv = Bias::None, o = Bias::None;
  const char* out = "o_proj";
  const char *q_norm = nullptr, *k_norm = nullptr;  // of each head, plain gain, before RoPE; or none
  float key_factor = 1;                             // of k, before RoPE
  OutputTo to = OutputTo::Stream;
};

class AttentionMixer final : public Mixer {
 public:
  /// `w` is positioned at the module: q_proj, k_proj, v_proj. A rope of no dimensions is none.
  AttentionMixer(const DecoderDims& dims, const KvLayout& layout, const RopeSpec& rope, const AttentionVariant& variant,
                 WeightLoader& loader, WeightBinder w);

  Tensor forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap,
                 Tail tail) const override;

 private:
  const KvLayout& layout_;
  const RopeSpec& rope_;
  float eps_, key_factor_;
  LinearGroup qkv_;        // [N·D, hidden], [Nkv·D, hidden] x2
  Linear wo_;              // [hidden, N·D]
  Owned q_norm_, k_norm_;  // [D], or absent
};

}  // namespace kvcal
