// What all Gemma generations have in common in config and rounding.
#pragma once

#include "base/json.h"
#include "ops/ops.h"

namespace kvcal {

/// A soft-cap: absent = `fallback`, null = 0 = none. Throws unless it is a positive number.
float read_cap(const Json& config, const char* key, double fallback);

/// These models keep their constants in the activation type: sqrt(5376) becomes 73.5.
float in_activation_type(const WeightLoader& loader, float x);

/// use_bidirectional_attention for text tokens: such a model has no cache to calibrate.
void refuse_bidirectional(const Json& config);

}  // namespace kvcal
