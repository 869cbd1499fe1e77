#include "model/layers/weight_rows.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

namespace kvcal {
namespace {

// In squares that stay in the cache, whichever side is read along its rows.
template <class T>
void turn(const T* from, int64_t rows, int64_t columns, T* to) {
  constexpr int64_t kSquare = 32;
  for (int64_t r0 = 0; r0 < rows; r0 += kSquare)
    for (int64_t c0 = 0; c0 < columns; c0 += kSquare)
      for (int64_t r = r0; r < std::min(rows, r0 + kSquare); ++r)
        for (int64_t c = c0; c < std::min(columns, c0 + kSquare); ++c) to[c * rows + r] = from[r * columns + c];
}

Shape with_rows(const Tensor& weight, int64_t n) {
  std::array<int64_t, Shape::kMaxRank> extents{};
  for (int i = 0; i < weight.shape.rank(); ++i) extents[static_cast<size_t>(i)] = weight.dim(i);
  extents[0] = n;
  return Shape(std::span<const int64_t>(extents.data(), static_cast<size_t>(weight.shape.rank())));
}

}  // namespace

Storage select_rows(const Tensor& weight, const std::vector<int64_t>& rows) {
  if (weight.device == Device::Stored) return select_rows(decoded(weight).tensor(), rows);
  const Shape shape = with_rows(weight, static_cast<int64_t>(rows.size()));
  if (is_of_no_weight(weight)) return of_no_weight(shape);
  Storage out(shape, weight.dtype);
  const size_t bytes = weight.bytes() / static_cast<size_t>(weight.dim(0));
  for (size_t i = 0; i < rows.size(); ++i)
    std::memcpy(static_cast<char*>(out.tensor().data) + i * bytes,
                static_cast<const char*>(weight.data) + static_cast<size_t>(rows[i]) * bytes, bytes);
  return out;
}

Storage select_rows(const Tensor& weight, const RowsOfGroups& rows) {
  if (is_of_no_weight(weight)) return of_no_weight(with_rows(weight, rows.n_groups * rows.n));
  if (weight.device == Device::Stored)
    if (Storage part = selected(weight, {0, rows.group, rows.offset, rows.n}, rows.n_groups * rows.n)) return part;
  return select_rows(weight, rows.numbers());
}

Storage select_rows(const Tensor& weight, std::span<const RowsOfGroups> parts) {
  int64_t n = 0;
  for (const RowsOfGroups& part : parts) n += part.n_groups * part.n;
  if (is_of_no_weight(weight)) return of_no_weight(with_rows(weight, n));
  std::vector<int64_t> rows;
  for (const RowsOfGroups& part : parts) {
    const std::vector<int64_t> more = part.numbers();
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return select_rows(weight, rows);
}

Storage transposed(const Tensor& weight) {
  if (weight.device == Device::Stored) {
    if (Storage part = turned(weight)) return part;
    return transposed(decoded(weight).tensor());
  }
  const int64_t rows = weight.dim(0), columns = weight.dim(1);
  if (is_of_no_weight(weight)) return of_no_weight({columns, rows});
  Storage out({columns, rows}, weight.dtype);
  const size_t bytes = size_of(weight.dtype);
  if (bytes == 2) turn(static_cast<const uint16_t*>(weight.data), rows, columns, out.tensor().as<uint16_t>());
  if (bytes == 4) turn(static_cast<const uint32_t*>(weight.data), rows, columns, out.tensor().as<uint32_t>());
  if (bytes == 8) turn(static_cast<const uint64_t*>(weight.data), rows, columns, out.tensor().as<uint64_t>());
  assert(bytes == 2 || bytes == 4 || bytes == 8);
  return out;
}

Storage swapped_columns(const Tensor& weight, int64_t outer, int64_t inner) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < inner; ++i)
    for (int64_t o = 0; o < outer; ++o) order.push_back(o * inner + i);
  return transposed(select_rows(transposed(weight).tensor(), order).tensor());
}

std::vector<int64_t> RowsOfGroups::numbers() const {
  std::vector<int64_t> rows;
  rows.reserve(static_cast<size_t>(n_groups * n));
  for (int64_t g = 0; g < n_groups; ++g)
    for (int64_t i = 0; i < n; ++i) rows.push_back(g * group + offset + i);
  return rows;
}

}  // namespace kvcal
