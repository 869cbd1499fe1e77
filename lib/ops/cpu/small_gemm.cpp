#include "ops/cpu/small_gemm.h"

#include <cstring>

#include "ops/cpu/math.h"

namespace kvcal::cpu {
namespace {

// C [M, 16]: M x 2 accumulators. 6 rows use 12 of the 16 AVX registers, the most that leaves room for B and A.
template <int M>
void block(int64_t k, const float* a, int64_t a_row, int64_t a_column, const float* b, int64_t b_row, float* c,
           int64_t c_row, bool accumulate) {
  F32x8 left[M], right[M];
  for (int i = 0; i < M; ++i) {
    left[i] = accumulate ? load8(c + i * c_row) : F32x8{};
    right[i] = accumulate ? load8(c + i * c_row + 8) : F32x8{};
  }
  for (int64_t p = 0; p < k; ++p) {
    const F32x8 b0 = load8(b), b1 = load8(b + 8);
#pragma GCC unroll 6
    for (int i = 0; i < M; ++i) {
      const F32x8 x = splat(a[i * a_row]);
      left[i] = multiply_add(x, b0, left[i]);
      right[i] = multiply_add(x, b1, right[i]);
    }
    a += a_column;
    b += b_row;
  }
  for (int i = 0; i < M; ++i) {
    store8(c + i * c_row, left[i]);
    store8(c + i * c_row + 8, right[i]);
  }
}

constexpr int kMaxRows = 6;
using Block = void (*)(int64_t, const float*, int64_t, int64_t, const float*, int64_t, float*, int64_t, bool);
constexpr Block kBlocks[kMaxRows + 1] = {nullptr, block<1>, block<2>, block<3>, block<4>, block<5>, block<6>};

/// 8 x 8 words of 4 bytes in registers: interleave rows at distance 1, 2, 4.
template <class T>
void transpose8(const T* from, int64_t from_row, T* to, int64_t to_row) {
  U32x8 r[8], s[8];
  for (int i = 0; i < 8; ++i) std::memcpy(&r[i], from + i * from_row, sizeof(r[i]));
  for (int i = 0; i < 8; i += 2) {
    s[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    s[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int i = 0; i < 8; ++i) {
    const int low = i & ~2, high = i | 2;
    r[i] = i & 2 ? __builtin_shufflevector(s[low], s[high], 2, 3, 10, 11, 6, 7, 14, 15)
                 : __builtin_shufflevector(s[low], s[high], 0, 1, 8, 9, 4, 5, 12, 13);
  }
  for (int i = 0; i < 8; ++i) {
    const int low = i & ~4, high = i | 4;
    const U32x8 t = i & 4 ? __builtin_shufflevector(r[low], r[high], 4, 5, 6, 7, 12, 13, 14, 15)
                          : __builtin_shufflevector(r[low], r[high], 0, 1, 2, 3, 8, 9, 10, 11);
    std::memcpy(to + i * to_row, &t, sizeof(t));
  }
}

template <class T>
void transpose_any(const T* from, int64_t from_row, int64_t rows, int64_t columns, T* to, int64_t to_row) {
  const int64_t whole_rows = rows / 8 * 8, whole_columns = columns / 8 * 8;
  for (int64_t i = 0; i < whole_rows; i += 8)
    for (int64_t j = 0; j < whole_columns; j += 8)
      transpose8(from + i * from_row + j, from_row, to + j * to_row + i, to_row);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = i < whole_rows ? whole_columns : 0; j < columns; ++j) to[j * to_row + i] = from[i * from_row + j];
}

}  // namespace

void transpose(const float* from, int64_t from_row, int64_t rows, int64_t columns, float* to, int64_t to_row) {
  transpose_any(from, from_row, rows, columns, to, to_row);
}

void transpose(const uint32_t* from, int64_t from_row, int64_t rows, int64_t columns, uint32_t* to, int64_t to_row) {
  transpose_any(from, from_row, rows, columns, to, to_row);
}

void small_gemm(int64_t m, int64_t n, int64_t k, MatrixView a, const float* b, int64_t b_row, float* c, int64_t c_row,
                bool accumulate) {
  for (int64_t j = 0; j < n; j += kColumnBlock)
    for (int64_t i = 0; i < m; i += kMaxRows) {
      const int64_t rows = m - i < kMaxRows ? m - i : kMaxRows;
      kBlocks[rows](k, a.data + i * a.row, a.row, a.column, b + j, b_row, c + i * c_row + j, c_row, accumulate);
    }
}

}  // namespace kvcal::cpu
