#include "ops/cpu/small_gemm.h"

#include "ops/cpu/math.h"

#ifdef __FMA__
#include <immintrin.h>
#endif

namespace kvcal::cpu {
namespace {

inline F32x8 multiply_add(F32x8 a, F32x8 b, F32x8 c) {
#ifdef __FMA__
  return std::bit_cast<F32x8>(
      _mm256_fmadd_ps(std::bit_cast<__m256>(a), std::bit_cast<__m256>(b), std::bit_cast<__m256>(c)));
#else
  return a * b + c;
#endif
}

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

}  // namespace

void small_gemm(int64_t m, int64_t n, int64_t k, MatrixView a, const float* b, int64_t b_row, float* c, int64_t c_row,
                bool accumulate) {
  for (int64_t j = 0; j < n; j += kColumnBlock)
    for (int64_t i = 0; i < m; i += kMaxRows) {
      const int64_t rows = m - i < kMaxRows ? m - i : kMaxRows;
      kBlocks[rows](k, a.data + i * a.row, a.row, a.column, b + j, b_row, c + i * c_row + j, c_row, accumulate);
    }
}

}  // namespace kvcal::cpu
