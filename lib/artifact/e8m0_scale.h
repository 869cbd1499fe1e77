// E8M0 scales of a cache of values: a byte for each channel, 127 more than the exponent of a power of two.
#pragma once

#include <vector>

#include "artifact/artifact.h"

namespace kvcal {

constexpr int kE8m0Bias = 127;

/// Whether a scale tells the largest magnitude of its channel, as absmax has it; rounded to a power of two it does not.
bool has_ranges(const ArtifactQuantization& quantization);

/// Exponents of the scales [n_kv_heads · head_dim] at which E4M3 stores the values of a layer, from an INT8 scale for
/// each channel: -e of the powers of two 2^e by which 'fold --balance channel' multiplies them. Needs has_ranges().
/// Where 1 may be the scale of a channel that was zero throughout, or of a measured one (headroom 1: of 127), it counts
/// as measured.
std::vector<int> value_exponents(const ArtifactSite& value, const ArtifactQuantization& quantization);

}  // namespace kvcal
