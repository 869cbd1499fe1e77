// Powers of two for rows or columns of a stored tensor.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "fold/power_of_two.h"

namespace kvcal {

/// Rows: element i belongs to row i / (elements / n). Columns: to column i % n. A tensor of one dimension has rows.
enum class Axis : uint8_t { Rows, Columns };

struct TensorFold {
  std::string name;
  Axis axis = Axis::Rows;
  std::vector<int> exponents;  // n of them: elements are multiplied by 2^exponent
  bool one_plus = false;       // 1 + element is multiplied instead

  bool operator==(const TensorFold&) const = default;
};

/// Multiplies elements [first, first + bytes / element size) of a tensor of `elements`. False as multiply().
bool multiply_part(const TensorFold& fold, DType type, uint64_t elements, uint64_t first, std::span<std::byte> bytes,
                   Subnormals subnormals);

/// Whether every element of the tensor takes its power exactly. Reads it piece by piece.
bool is_exact(const Checkpoint& checkpoint, const TensorFold& fold, Subnormals subnormals);
bool is_exact(const SafetensorsFile& shard, const TensorFold& fold, Subnormals subnormals);

}  // namespace kvcal
