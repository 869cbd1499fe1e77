// Reordering a weight while it is loaded, so that interleaved and transposed projections become plain ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/encoded_weight.h"

namespace kvcal {

/// A copy of the given rows of a tensor [rows, ..] that is not on a device, in the given order.
Storage select_rows(const Tensor& weight, const std::vector<int64_t>& rows);

/// Part [offset, offset + n) of every group of `group` rows, for n_groups groups one after the other.
struct RowsOfGroups {
  int64_t n_groups, group, offset, n;
  std::vector<int64_t> numbers() const;
};

/// A copy of those rows; of a tensor that is only stored one that is only stored.
Storage select_rows(const Tensor& weight, const RowsOfGroups& rows);

/// A copy of several such parts, one after the other.
Storage select_rows(const Tensor& weight, std::span<const RowsOfGroups> parts);

/// A copy of a weight [out, outer · inner] whose columns are [inner][outer] instead of [outer][inner].
Storage swapped_columns(const Tensor& weight, int64_t outer, int64_t inner);

/// A copy of a tensor [rows, columns] as [columns, rows]; of one that is only stored one that is only stored.
Storage transposed(const Tensor& weight);

}  // namespace kvcal
