// The rows of a picture in a tower, and attention in which its patches see each other.
#pragma once

#include <cstdint>
#include <optional>
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

/// q [patches, heads, D], k, v [patches, KV heads, D] -> [patches, heads·D]: every row sees those of its span. `scale`
/// multiplies q·k; absent: 1 / sqrt(D).
Tensor attend_within(Ops& op, std::span<const Tensor> qkv, std::span<const Span> spans,
                     std::optional<float> scale = std::nullopt);

/// The numbers of a device's tensor, and numbers as one of the activation dtype.
std::vector<float> on_host(Ops& op, const Tensor& x);
Tensor on_device(Ops& op, std::span<const float> values, const Shape& shape);

/// x [rows · n, hidden] -> [rows, hidden]: the mean of every n rows, in F32, rounded once.
Tensor mean_of_rows(Ops& op, const Tensor& x, int64_t n);

}  // namespace kvcal
