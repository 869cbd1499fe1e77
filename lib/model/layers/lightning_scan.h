// What kinds of lightning attention have in common: a state space S <- e^-rate S + k ⊗ v, o = qᵀ S, whose rates are
// constants of head and layer, so that it is ssd() with a step of 1 and nothing skipped.
#pragma once

#include <vector>

#include "model/layers/mixer.h"

namespace kvcal {

class LightningScan {
 public:
  /// log_rates: the natural logarithm of the rate of each head.
  LightningScan(const std::vector<double>& log_rates, WeightLoader& loader);

  /// q, k, v [tokens, heads, head_dim]; h [tokens, at least heads], of any finite values -> o as v.
  Tensor forward(Ops& op, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& h, const Batch& batch,
                 LayerStates& states) const;

 private:
  int64_t n_heads_;
  Owned a_log_, dt_bias_, skip_;  // F32 [heads]
};

/// The state of n_heads heads of head_dim channels. Activations: those of the scan alone, its result included.
MixerSize lightning_size(int64_t n_heads, int64_t head_dim);

}  // namespace kvcal
