#include "model/weight_rows.h"

#include <array>
#include <cstring>

namespace kvcal {

Storage select_rows(const Tensor& weight, const std::vector<int64_t>& rows) {
  std::array<int64_t, Shape::kMaxRank> extents{};
  for (int i = 0; i < weight.shape.rank(); ++i) extents[static_cast<size_t>(i)] = weight.dim(i);
  extents[0] = static_cast<int64_t>(rows.size());
  Storage out(Shape(std::span<const int64_t>(extents.data(), static_cast<size_t>(weight.shape.rank()))), weight.dtype);
  const size_t bytes = weight.bytes() / static_cast<size_t>(weight.dim(0));
  for (size_t i = 0; i < rows.size(); ++i)
    std::memcpy(static_cast<char*>(out.tensor().data) + i * bytes,
                static_cast<const char*>(weight.data) + static_cast<size_t>(rows[i]) * bytes, bytes);
  return out;
}

std::vector<int64_t> rows_of_groups(int64_t n_groups, int64_t group, int64_t offset, int64_t n) {
  std::vector<int64_t> rows;
  rows.reserve(static_cast<size_t>(n_groups * n));
  for (int64_t g = 0; g < n_groups; ++g)
    for (int64_t i = 0; i < n; ++i) rows.push_back(g * group + offset + i);
  return rows;
}

}  // namespace kvcal
