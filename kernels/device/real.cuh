// Activations in kernels: float or bf16 in memory, float in registers.
#pragma once

#include <cuda_runtime.h>

#include "tensor/dtype.h"

namespace kvcal::cuda {

__device__ inline float widen(float x) { return x; }
__device__ inline float widen(bf16 x) { return __uint_as_float(uint32_t{x.bits} << 16); }

/// One rounding: nearest, ties to even, NaN stays NaN. The same as to_bf16() but for a NaN's payload.
template <class T>
__device__ T narrow(float x);

template <>
__device__ inline float narrow<float>(float x) {
  return x;
}

template <>
__device__ inline bf16 narrow<bf16>(float x) {
#ifdef __CUDACC__
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return {bits};
#else
  return to_bf16(x);
#endif
}

/// Two of them by one instruction, `low` in the lower half.
__device__ inline uint32_t narrow_pair(float low, float high) {
#ifdef __CUDACC__
  uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
#else
  return to_bf16(low).bits | uint32_t{to_bf16(high).bits} << 16;
#endif
}

__device__ inline float widen_low(uint32_t pair) { return __uint_as_float(pair << 16); }
__device__ inline float widen_high(uint32_t pair) { return __uint_as_float(pair & 0xFFFF0000u); }

/// The value that would be read back after storing as T.
template <class T>
__device__ float rounded_to(float x);

template <>
__device__ inline float rounded_to<float>(float x) {
  return x;
}

/// A bf16 is the upper half of its float. Widening narrow()'s result takes a conversion of a sixteenth of the rate.
template <>
__device__ inline float rounded_to<bf16>(float x) {
  return __uint_as_float(narrow_pair(0.0f, x));
}

__device__ inline float rounded_to_f16(float x) {
  const float magnitude = fabsf(x);
  if (!(magnitude < 65520.0f)) return x != x ? x : copysignf(__uint_as_float(0x7F800000u), x);
  // Below the least normal half all are multiples of 2^-24, which is how far floats from 0.5 on lie apart.
  if (magnitude < 0x1p-14f) return copysignf((magnitude + 0.5f) - 0.5f, x);
  const uint32_t u = __float_as_uint(x);
  return __uint_as_float((u + 0xFFFu + ((u >> 13) & 1u)) & ~0x1FFFu);
}

/// For what is compared with others, or goes into a recurrence.
__device__ inline float exact_sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

/// Divided within 2 ulp, by a third of the instructions of a correctly rounded quotient; nothing below 2^-126.
__device__ inline float sigmoid(float x) { return __fdividef(1.0f, 1.0f + expf(-x)); }
__device__ inline float silu(float x) { return __fdividef(x, 1.0f + expf(-x)); }

/// 2^x within 2 ulp, by one instruction; below 2^-126 zero.
__device__ inline float exp2_approximate(float x) {
#ifdef __CUDACC__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

/// ln(1 + e^x); beyond 20 the reference framework's is x.
__device__ inline double softplus(double x) { return x > 20.0 ? x : log1p(exp(x)); }

/// kSize values of T that one thread reads and writes at a time; 16 bytes are best.
template <class T, int kSize>
struct alignas(sizeof(T) * kSize) Pack {
  T values[kSize];
};

}  // namespace kvcal::cuda
