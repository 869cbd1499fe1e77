// The rows of a picture in a tower, and attention in which its patches see each other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/ops.h"
#include "vision/patches.h"

namespace kvcal {

/// Where the patch in each row lies, and the spans of rows that see each other.
struct PatchRows {
  std::vector<PatchPlace> places;
  std::vector<Span> spans;

  /// Row and column of each, as RoPE wants positions: [2][patches].
  std::vector<int32_t> positions() const;
};

/// Patches in the order of a PatchGrid, all of which see each other.
PatchRows whole_picture(const PatchGrid& grid, int64_t merge);

/// q, k, v [patches, heads, D] -> [patches, heads·D]: every row sees those of its span.
Tensor attend_within(Ops& op, std::span<const Tensor> qkv, std::span<const Span> spans);

}  // namespace kvcal
