// What Gemma generations have in common in config and rounding.
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

/// "NAME.weight" [n] as the gain of a norm that stays float32: the reference rounds the product only.
Owned load_f32_gain(WeightLoader& loader, const WeightBinder& w, const std::string& name, int64_t n);

/// The first number of a tensor in the host's memory.
float first_value(const Tensor& t);

/// A count that may be 0. Throws where it is out of range.
int64_t read_optional_size(const Json& config, const char* key, int64_t fallback);

/// The RoPE of layers of a kind, of a config that has it by kind; older ones give the base of sliding layers beside
/// rope_theta, which with rope_scaling is of the others.
RopeSpec read_rope_by_kind(const Json& text, int64_t head_dim, bool sliding);

/// use_bidirectional_attention for text tokens: such a model has no cache to calibrate.
void refuse_bidirectional(const Json& config);

}  // namespace kvcal
