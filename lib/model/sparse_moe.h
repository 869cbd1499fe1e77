// Mixture of SwiGLU experts with softmax routing and a gated shared expert (Qwen2-MoE to Qwen3.5-MoE; architectures.md
// 0.7 variant A, 1.5).
#pragma once

#include <optional>

#include "model/decoder_parts.h"

namespace kvcal {

struct MoeDims {
  int64_t hidden, n_experts, n_active, ffn, shared_ffn;  // shared_ffn 0 = no shared expert
  bool renormalize;
};

class SparseMoe {
 public:
  /// `w` is positioned at mlp.; experts are read one by one ("experts.0.gate_proj.weight") or fused
  /// ("experts.gate_up_proj" [E, 2·ffn, hidden], rows gate then up; "experts.down_proj" [E, hidden, ffn]).
  SparseMoe(const MoeDims& dims, Ops& op, WeightBinder w);

  Tensor forward(Ops& op, const Tensor& x) const;  // [tokens, hidden] -> [tokens, hidden]

  static int64_t parameters(const MoeDims& dims);

 private:
  MoeDims dims_;
  Linear router_;                    // [n_experts, hidden]
  std::vector<GluWeights> experts_;  // [ffn, hidden] x2, [hidden, ffn]
  std::optional<GluMlp> shared_;
  Linear shared_gate_;  // [1, hidden]
};

}  // namespace kvcal
