// What all Gemma generations have in common in config and rounding.
#pragma once

#include <string>

#include "base/json.h"
#include "checkpoint/weight_binder.h"
#include "ops/ops.h"

namespace kvcal {

/// A soft-cap: absent = `fallback`, null = 0 = none. Throws unless it is a positive number.
float read_cap(const Json& config, const char* key, double fallback);

/// These models keep their constants in the activation type: sqrt(5376) becomes 73.5.
float in_activation_type(const WeightLoader& loader, float x);

/// "NAME.weight" [n], the gain of a norm of Gemma 4, in F32: the reference rounds the product only.
Owned load_f32_gain(WeightLoader& loader, const WeightBinder& w, const std::string& name, int64_t n);

/// The first number of a tensor in the host's memory.
float first_value(const Tensor& t);

/// use_bidirectional_attention for text tokens: such a model has no cache to calibrate.
void refuse_bidirectional(const Json& config);

}  // namespace kvcal
