// Products of f32 values on tensor cores that take bf16: a value is the sum of two bf16, which keep 16 of its bits.
#pragma once

#include "kernels/device/mma.cuh"
#include "kernels/device/real.cuh"
#include "kernels/device/reduce.cuh"

namespace kvcal::cuda {

/// An operand of 16 x 16, as multiply_add takes it, in two parts.
struct SplitOperand {
  uint32_t high[4], low[4];

  /// From two neighbouring 16 x 8 results: their registers lie as those of the operand do.
  __device__ SplitOperand(const float (&left)[4], const float (&right)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float a = i < 2 ? left[2 * i] : right[2 * i - 4], b = i < 2 ? left[2 * i + 1] : right[2 * i - 3];
      high[i] = narrow_pair(a, b);
      low[i] = narrow_pair(a - widen_low(high[i]), b - widen_high(high[i]));
    }
  }
};

/// Two tiles d [16, 8] += a [16, 16] b, b as load_matrices gives it for 16 columns.
__device__ inline void multiply_add_pair(float (&left)[4], float (&right)[4], const uint32_t (&a)[4],
                                         const uint32_t (&b)[4]) {
  multiply_add(left, a, {b[0], b[1]});
  multiply_add(right, a, {b[2], b[3]});
}

/// b exact in bf16.
__device__ inline void multiply_add_pair(float (&left)[4], float (&right)[4], const SplitOperand& a,
                                         const uint32_t (&b)[4]) {
  multiply_add_pair(left, right, a.high, b);
  multiply_add_pair(left, right, a.low, b);
}

/// b in two parts as well; low times low is below the last bit.
__device__ inline void multiply_add_pair(float (&left)[4], float (&right)[4], const SplitOperand& a,
                                         const uint32_t (&b_high)[4], const uint32_t (&b_low)[4]) {
  multiply_add_pair(left, right, a, b_high);
  multiply_add_pair(left, right, a.high, b_low);
}

/// Where a lane finds its rows of a 16 x 16 block that load_matrices reads as operand b, stored [column of b][k].
__device__ inline int b_row(int lane) { return lane / 16 * 8 + lane % 8; }
__device__ inline int b_column(int lane) { return lane / 8 % 2 * 8; }

}  // namespace kvcal::cuda
