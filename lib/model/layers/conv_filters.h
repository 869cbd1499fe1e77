// The filters of a causal convolution over queries, keys and values, as checkpoints store them.
#pragma once

#include "checkpoint/weight_binder.h"
#include "ops/ops.h"

namespace kvcal {

/// Channels of queries and keys each, and of values.
struct ConvShape {
  int64_t keys, values, kernel;
};

/// F32 [2·keys + values, kernel] of the binder's module: "conv1d.weight", or "q_conv1d.weight", "k_conv1d.weight" and
/// "v_conv1d.weight", which the reference framework saves as thirds; with or without a dimension of 1 before the last.
Owned load_conv_filters(const ConvShape& shape, WeightLoader& loader, const WeightBinder& w);

}  // namespace kvcal
