// Arithmetic of two bf16 in a register, each result rounded once.
#pragma once

#include "kernels/device/real.cuh"

namespace kvcal::cuda {

/// a b + c.
__device__ inline uint32_t multiply_add_pairs(uint32_t a, uint32_t b, uint32_t c) {
#ifdef __CUDACC__
  uint32_t d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
#else
  const auto rounded = [](double x, double y, double z) {
    return static_cast<float>(x * y + z);
  };  // of a few bits each
  return narrow_pair(rounded(widen_low(a), widen_low(b), widen_low(c)),
                     rounded(widen_high(a), widen_high(b), widen_high(c)));
#endif
}

/// The smaller of each; NaN where one is.
__device__ inline uint32_t smaller_pairs(uint32_t a, uint32_t b) {
#ifdef __CUDACC__
  uint32_t d;
  asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
#else
  const auto smaller = [](float x, float y) { return x != x || x < y ? x : y; };
  return narrow_pair(smaller(widen_low(a), widen_low(b)), smaller(widen_high(a), widen_high(b)));
#endif
}

/// The larger of each; none is NaN.
__device__ inline uint32_t larger_pairs(uint32_t a, uint32_t b) {
#ifdef __CUDACC__
  uint32_t d;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
#else
  return narrow_pair(fmaxf(widen_low(a), widen_low(b)), fmaxf(widen_high(a), widen_high(b)));
#endif
}

/// One bf16 in both halves.
__device__ constexpr uint32_t both(uint32_t bits) { return bits * 0x00010001u; }

}  // namespace kvcal::cuda
