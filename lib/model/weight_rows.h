// Reordering a weight while it is loaded, so that interleaved and transposed projections become plain ones.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace kvcal {

/// A copy of the given rows of a host tensor [rows, ..], in the given order.
Storage select_rows(const Tensor& weight, const std::vector<int64_t>& rows);

/// A copy of a host tensor [rows, columns] as [columns, rows].
Storage transposed(const Tensor& weight);

/// Row numbers of part [offset, offset + n) of every group of `group` rows, for n_groups groups one after the other.
std::vector<int64_t> rows_of_groups(int64_t n_groups, int64_t group, int64_t offset, int64_t n);

}  // namespace kvcal
