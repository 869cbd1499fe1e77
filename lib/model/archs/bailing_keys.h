// What the classes of Ling and Ring have in common in their configs and names.
#pragma once

#include "model/layers/sparse_moe.h"
#include "model/rope.h"

namespace kvcal {

/// Servers take all sizes from the config.
constexpr DecoderDefaults kBailingDefaults = {
    .vocab = 0, .hidden = 0, .ffn = 0, .n_layers = 0, .n_heads = 0, .max_positions = 32768, .eps = 1e-6};

/// Experts, chosen by softmax, or by biased sigmoid scores as DeepSeek-V3 has it, beside shared ones.
MoeDims read_bailing_moe(const Json& text, int64_t hidden);
/// `layer`: of one with experts.
MoeParts load_bailing_moe(const MoeDims& dims, WeightLoader& loader, WeightBinder layer);

/// Of heads of keys and values. rotary_dim says the same as partial_rotary_factor; servers differ in which they look
/// at first.
RopeSpec read_bailing_rotation(const Json& text, int64_t head_dim);

}  // namespace kvcal
