// Rounding to the floats of 8 and 4 bits that caches and quantized layers store (tensor/small_floats.h).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace kvcal::cuda {

constexpr float kMostE4m3 = 448.0f;

/// Nearest value with so many bits of mantissa, ties to even, at most `most` in magnitude; NaN stays NaN. Below
/// least_normal the steps are those of `steps`: the last bit of that number.
template <int kMantissaBits>
__device__ inline float rounded_to_grid(float x, float least_normal, float steps, float most) {
  constexpr uint32_t kDropped = 23 - kMantissaBits, kHalf = (1u << kDropped >> 1) - 1;
  const float magnitude = fabsf(x);
  if (!(magnitude < most)) return x != x ? x : copysignf(most, x);
  if (magnitude < least_normal) return copysignf((magnitude + steps) - steps, x);
  const uint32_t bits = __float_as_uint(x);
  return __uint_as_float((bits + kHalf + ((bits >> kDropped) & 1u)) & ~((1u << kDropped) - 1));
}

__device__ inline float rounded_to_e4m3(float x) { return rounded_to_grid<3>(x, 0x1p-6f, 0x1.8p14f, kMostE4m3); }
__device__ inline float rounded_to_e4m3fnuz(float x) { return rounded_to_grid<3>(x, 0x1p-7f, 0x1.8p13f, 240.0f); }
__device__ inline float rounded_to_e5m2(float x) { return rounded_to_grid<2>(x, 0x1p-14f, 0x1.8p7f, 57344.0f); }
__device__ inline float rounded_to_e2m1(float x) { return rounded_to_grid<1>(x, 1.0f, 0x1.8p22f, 6.0f); }
__device__ inline float rounded_to_int8(float x) { return rounded_to_grid<7>(x, 128.0f, 0x1.8p23f, 127.0f); }
__device__ inline float rounded_to_int16(float x) { return rounded_to_grid<15>(x, 32768.0f, 0x1.8p23f, 32767.0f); }

}  // namespace kvcal::cuda
