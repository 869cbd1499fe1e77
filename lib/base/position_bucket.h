// Positions by powers of two: what is kept or reported by position has one entry for each.
#pragma once

#include <bit>
#include <cstdint>

namespace kvcal {

/// Bucket 0: position 0; bucket b: positions 2^(b-1) to 2^b - 1.
constexpr int position_bucket(int64_t position) { return std::bit_width(static_cast<uint64_t>(position)); }

}  // namespace kvcal
