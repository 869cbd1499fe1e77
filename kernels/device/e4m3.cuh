// Rounding to FP8.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace kvcal::cuda {

constexpr float kMostE4m3 = 448.0f;

/// Nearest value of E4M3, ties to even, at most 448 in magnitude; NaN stays NaN.
__device__ inline float rounded_to_e4m3(float x) {
  const float magnitude = fabsf(x);
  if (!(magnitude < kMostE4m3)) return x != x ? x : copysignf(kMostE4m3, x);
  constexpr float kSteps = 0x1.8p14f;  // its last bit is 2^-9, the step below 2^-6
  if (magnitude < 0x1p-6f) return copysignf((magnitude + kSteps) - kSteps, x);
  const uint32_t bits = __float_as_uint(x);
  return __uint_as_float((bits + 0x7FFFFu + ((bits >> 20) & 1u)) & ~0xFFFFFu);
}

}  // namespace kvcal::cuda
