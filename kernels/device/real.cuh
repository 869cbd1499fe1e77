// Activations in kernels: float or bf16 in memory, float in registers.
#pragma once

#include <cuda_runtime.h>

#include "tensor/dtype.h"

namespace kvcal::cuda {

__device__ inline float widen(float x) { return x; }
__device__ inline float widen(bf16 x) { return __uint_as_float(uint32_t{x.bits} << 16); }

/// One rounding, the same as to_bf16(): nearest, ties to even, NaN stays NaN.
template <class T>
__device__ T narrow(float x);

template <>
__device__ inline float narrow<float>(float x) {
  return x;
}

template <>
__device__ inline bf16 narrow<bf16>(float x) {
  const uint32_t u = __float_as_uint(x);
  const bool nan = (u & 0x7FFFFFFFu) > 0x7F800000u;
  return {static_cast<uint16_t>((nan ? u | 0x400000u : u + 0x7FFFu + ((u >> 16) & 1u)) >> 16)};
}

/// The value that would be read back after storing as T.
template <class T>
__device__ float rounded_to(float x) {
  return widen(narrow<T>(x));
}

__device__ inline float rounded_to_f16(float x) {
  const float magnitude = fabsf(x);
  if (!(magnitude < 65520.0f)) return x != x ? x : copysignf(__uint_as_float(0x7F800000u), x);
  // Below the least normal half all are multiples of 2^-24, which is how far floats from 0.5 on lie apart.
  if (magnitude < 0x1p-14f) return copysignf((magnitude + 0.5f) - 0.5f, x);
  const uint32_t u = __float_as_uint(x);
  return __uint_as_float((u + 0xFFFu + ((u >> 13) & 1u)) & ~0x1FFFu);
}

/// stored_as() of the host: F32, BF16 or F16.
__device__ inline float as_stored(DType t, float x) {
  return t == DType::F32 ? x : t == DType::BF16 ? rounded_to<bf16>(x) : rounded_to_f16(x);
}

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ inline float silu(float x) { return x / (1.0f + expf(-x)); }

/// ln(1 + e^x); beyond 20 the reference framework's is x.
__device__ inline double softplus(double x) { return x > 20.0 ? x : log1p(exp(x)); }

/// kSize values of T that one thread reads and writes at a time; 16 bytes are best.
template <class T, int kSize>
struct alignas(sizeof(T) * kSize) Pack {
  T values[kSize];
};

}  // namespace kvcal::cuda
