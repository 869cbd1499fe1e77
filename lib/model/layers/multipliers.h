// Granite's multipliers: constants that the activations of a model are scaled by.
#pragma once

#include "base/json.h"
#include "ops/ops.h"

namespace kvcal {

struct Multipliers {
  float embedding = 1;   // of the embedded tokens
  double attention = 1;  // the softmax scale
  float residual = 1;    // of each branch, before it is added
  float logits = 1;      // of the logits: 1 / logits_scaling
};

/// embedding_multiplier, attention_multiplier, residual_multiplier, logits_scaling; all 1 where absent.
Multipliers read_multipliers(const Json& text);

/// x times the factor; x itself where it is 1.
inline Tensor scaled(Ops& op, const Tensor& x, float factor) { return factor == 1 ? x : op.scale(x, factor); }

}  // namespace kvcal
