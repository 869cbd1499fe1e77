// Full attention of Qwen3-Next and Qwen3.5: (1+w) norms on q and k, RoPE over the first quarter of a head, and the
// output gated by a sigmoid of a second half of the query projection (docs/model-notes.md, "Gated attention").
#pragma once

#include "model/layers/mixer.h"

namespace kvcal {

class GatedAttention final : public Mixer {
 public:
  /// `w` is positioned at the layer; reads self_attn.*. Without `output_gate` q_proj has no gate rows.
  GatedAttention(const DecoderDims& dims, const KvLayout& layout, const RopeSpec& rope, Bias bias, bool output_gate,
                 WeightLoader& loader, WeightBinder& w);

  /// h [tokens, hidden] (normed) -> the branch's output [tokens, hidden], or h itself after the taps with Tail::Skip.
  Tensor forward(Ops& op, const Tensor& h, const Batch& batch, LayerStates& states, KvTap& tap,
                 Tail tail) const override;

 private:
  const KvLayout& layout_;
  const RopeSpec& rope_;
  float eps_;
  LinearGroup qkv_;        // [N·D, hidden], [Nkv·D, hidden] x2
  Linear wgate_, wo_;      // [N·D, hidden], [hidden, N·D]
  Owned q_norm_, k_norm_;  // [D], 1 + w
};

}  // namespace kvcal
