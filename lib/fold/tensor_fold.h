// Powers of two for rows or columns of a stored tensor.
#pragma once

#include <cstdint>
#include <span>

#include "checkpoint/checkpoint.h"
#include "checkpoint/fold_mark.h"
#include "fold/power_of_two.h"

namespace kvcal {

/// Whether a tensor of this type and size has such lines.
bool fits(const TensorInfo& info, const TensorFold& fold);

/// Multiplies elements [first, first + bytes / element size) of a tensor of `elements`. False as multiply().
bool multiply_part(const TensorFold& fold, DType type, uint64_t elements, uint64_t first, std::span<std::byte> bytes,
                   Subnormals subnormals);

/// Whether every element of the tensor takes its power exactly. Reads it piece by piece.
bool is_exact(const Checkpoint& checkpoint, const TensorFold& fold, Subnormals subnormals);
bool is_exact(const SafetensorsFile& shard, const TensorFold& fold, Subnormals subnormals);

}  // namespace kvcal
