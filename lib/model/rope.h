// Rotary position embedding as config.json describes it, turned into frequencies.
#pragma once

#include "base/json.h"
#include "ops/ops.h"

namespace kvcal {

/// What a family assumes where the config is silent.
struct RopeDefaults {
  double theta = 10000;
  double partial_rotary_factor = 1;
};

/// Reads `rope_parameters` or the older `rope_scaling` and top-level keys of a (text) config and computes the inverse
/// frequencies for heads of `head_dim` channels. Types: default, linear, llama3, yarn, dynamic; mRoPE sections choose
/// the position row of each pair. Frequencies follow the reference framework's float32 arithmetic. Throws for unknown
/// types, missing parameters and parameters out of range.
RopeSpec read_rope(const Json& config, int64_t head_dim, const RopeDefaults& defaults);

/// Rows of positions that the config's RoPE needs: 3 with mRoPE sections, else 1.
int64_t rope_position_axes(const RopeSpec& spec);

}  // namespace kvcal
