// What recurrences on tensor cores share: tiles of inputs in shared memory, the state in registers.
#pragma once

#include "kernels/device/mma_tile.cuh"
#include "kernels/kernels.h"

namespace kvcal::cuda {

constexpr int kSkew = 8;  // elements between rows in shared memory: the 8 rows of a matrix lie in different banks

/// Begins to copy rows [row, row + n) of a matrix, `width` columns of it, into a tile [kRows, kWidth]; zeros beyond.
template <int kRows, int kWidth, int kThreads, class T>
__device__ void load_rows(T* tile, const T* from, int64_t row, int n, int64_t stride, int width) {
  constexpr int kPack = 16 / sizeof(T), kPacks = kWidth / kPack;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kPacks; i += kThreads) {
    const int r = i / kPacks, column = i % kPacks * kPack;
    const bool inside = r < n && column < width;
    copy_async(tile + r * (kWidth + kSkew) + column, inside ? from + (row + r) * stride + column : from,
               inside ? 16 : 0);
  }
}

/// f(register, its place in S [dk, dv]) for what a lane holds of the state, Sᵀ from value column `column` on.
template <int kDk, class F>
__device__ void each_of_state(float (&state)[kDk / 8][4], int64_t column, const RecurrenceShape& s, F f) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int n = 0; n < kDk / 8; ++n)
    for (int i = 0; i < 4; ++i) {
      const int64_t c = column + lane / 4 + i / 2 * 8, d = n * 8 + lane % 4 * 2 + i % 2;
      if (d < s.dk && c < s.dv) f(state[n][i], d * s.dv + c);
    }
}

/// An f32 value at `at` of a tile in two parts.
template <int kSize>
__device__ void store_split(bf16 (&to)[2][kSize], int at, float x) {
  const float high = rounded_to<bf16>(x);
  to[0][at] = {static_cast<uint16_t>(__float_as_uint(high) >> 16)};
  to[1][at] = narrow<bf16>(x - high);
}

/// Two tiles += (p e)ᵀ for a 16 x 16 block of p, whose first element is at `at` of rows of kWidth elements.
template <int kWidth, int kSize>
__device__ void times_block(float (&left)[4], float (&right)[4], const SplitOperand& e, const bf16 (&p)[2][kSize],
                            int at, int lane) {
  const int own = at + b_row(lane) * kWidth + b_column(lane);
  uint32_t high[4], low[4];
  load_matrices(high, p[0] + own);
  load_matrices(low, p[1] + own);
  multiply_add_pair(left, right, e, high, low);
}

/// Whether tiles can be copied and written 16 bytes at a time.
inline bool in_packs(const RecurrenceArrays& arrays, const RecurrenceShape& s) {
  const auto aligned = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; };
  return s.dk % 8 == 0 && s.dv % 8 == 0 && aligned(arrays.q) && aligned(arrays.k) && aligned(arrays.v) &&
         aligned(arrays.y);
}

}  // namespace kvcal::cuda
