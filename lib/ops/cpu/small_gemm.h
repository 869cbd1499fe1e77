// Small f32 matrix products for attention and the delta rule.
//
// Every element of C is one chain of fused multiply-adds in ascending k, whatever the extents and wherever the element
// lies. That makes the results of a row independent of its neighbours by construction, without padding.
#pragma once

#include <cstdint>

#include "ops/cpu/math.h"

namespace kvcal::cpu {

/// A matrix in scratch memory: element (i, j) at data[i * row + j * column].
struct MatrixView {
  const float* data;
  int64_t row, column = 1;
};

/// Columns of B and C are handled 16 at a time: their rows need room for n rounded up to this, and finite values there.
constexpr int64_t kColumnBlock = 16;
constexpr int64_t padded_columns(int64_t n) { return (n + kColumnBlock - 1) / kColumnBlock * kColumnBlock; }

/// Distance of rows for n columns: padded, and not a multiple of the cache's set stride (a power of two would map a
/// column of blocks to few sets).
constexpr int64_t row_stride(int64_t n) { return padded_columns(n) + kColumnBlock; }

/// C [m, n] = A [m, k] B [k, n], or C += if accumulate. B and C are row-major with the given row distances.
void small_gemm(int64_t m, int64_t n, int64_t k, MatrixView a, const float* b, int64_t b_row, float* c, int64_t c_row,
                bool accumulate);

/// n values as float.
template <class T>
void copy_wide(const T* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) store(to + i, load(from + i, n - i), n - i);
}

/// to[j][i] = from[i][j] for i < rows, j < columns; rows at the given distances, of which that of `from` covers
/// padded_columns(columns).
void transpose(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to, int64_t to_row);
void transpose(const uint32_t* from, int64_t from_row, int64_t rows, int64_t columns, uint32_t* to, int64_t to_row);

/// Brings n values nearer. Rows of one head lie thousands of bytes apart, which the processor does not foresee.
template <class T>
void prefetch(const T* p, int64_t n) {
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t i = 0; i < n; i += kLine) __builtin_prefetch(p + i);
}

}  // namespace kvcal::cpu
