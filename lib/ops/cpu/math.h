// Elementary functions whose bytes do not depend on the machine's libm, and the vectors of 8 floats that the loops of
// this folder are written in.
//
// A vector here is a language extension of GCC and Clang: lane-wise +, -, * and / are the IEEE operations, whatever
// instructions the compiler picks (contraction into fused operations is off). So one function serves every width, and
// a lane's result does not depend on its neighbours.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "base/portable_math.h"
#include "tensor/dtype.h"

#ifdef __FMA__
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace kvcal::cpu {

constexpr int kLanes = 8;
using F32x8 = float __attribute__((vector_size(32)));
using I32x8 = int32_t __attribute__((vector_size(32)));
using U32x8 = uint32_t __attribute__((vector_size(32)));
using U16x8 = uint16_t __attribute__((vector_size(16)));

inline F32x8 splat(float x) { return F32x8{x, x, x, x, x, x, x, x}; }

// ---------------------------------------------------------------- loads and stores of 8, or of the last n < 8

inline F32x8 load8(const float* p) {
  F32x8 v;
  std::memcpy(&v, p, sizeof(v));
  return v;
}

inline F32x8 load8(const bf16* p) {
  U16x8 h;
  std::memcpy(&h, p, sizeof(h));
  return std::bit_cast<F32x8>(__builtin_convertvector(h, U32x8) << 16);
}

inline void store8(float* p, F32x8 v) { std::memcpy(p, &v, sizeof(v)); }

/// The 32 bits of each lane rounded to bf16 in the upper half: nearest, ties to even, NaN stays NaN, as to_bf16().
inline U32x8 bf16_bits(F32x8 v) {
  const U32x8 u = std::bit_cast<U32x8>(v);
  const I32x8 nan = std::bit_cast<I32x8>(u & 0x7FFFFFFFu) > 0x7F800000;
  return nan ? u | 0x400000u : u + 0x7FFFu + ((u >> 16) & 1u);
}

inline void store8(bf16* p, F32x8 v) {
  const U16x8 h = __builtin_convertvector(bf16_bits(v) >> 16, U16x8);
  std::memcpy(p, &h, sizeof(h));
}

template <class T>
F32x8 load(const T* p, int64_t n) {  // lanes beyond n are zero
  if (n >= kLanes) return load8(p);
  T padded[kLanes] = {};
  std::memcpy(padded, p, static_cast<size_t>(n) * sizeof(T));
  return load8(padded);
}

template <class T>
void store(T* p, F32x8 v, int64_t n) {
  if (n >= kLanes) return store8(p, v);
  T padded[kLanes];
  store8(padded, v);
  std::memcpy(p, padded, static_cast<size_t>(n) * sizeof(T));
}

/// The value that would be read back after storing as T.
template <class T>
F32x8 rounded_to(F32x8 v) {
  if constexpr (sizeof(T) == sizeof(bf16)) return std::bit_cast<F32x8>(bf16_bits(v) & 0xFFFF0000u);
  return v;
}

/// a b + c in one rounding where the processor class has it, which x86-64 with AVX2 and arm64 do.
inline F32x8 multiply_add(F32x8 a, F32x8 b, F32x8 c) {
#ifdef __FMA__
  return std::bit_cast<F32x8>(
      _mm256_fmadd_ps(std::bit_cast<__m256>(a), std::bit_cast<__m256>(b), std::bit_cast<__m256>(c)));
#elif defined(__ARM_NEON)
  const auto x = std::bit_cast<float32x4x2_t>(a), y = std::bit_cast<float32x4x2_t>(b),
             z = std::bit_cast<float32x4x2_t>(c);
  return std::bit_cast<F32x8>(
      float32x4x2_t{{vfmaq_f32(z.val[0], x.val[0], y.val[0]), vfmaq_f32(z.val[1], x.val[1], y.val[1])}});
#else
  return a * b + c;
#endif
}

/// a where it is larger, else b. NaN may be lost.
inline F32x8 larger(F32x8 a, F32x8 b) { return a > b ? a : b; }

inline float largest(F32x8 v) {  // no branches: which lane wins is not predictable
  v = larger(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
  v = larger(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));
  return larger(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6))[0];
}

/// Lanes added in a fixed tree.
inline float sum(F32x8 v) { return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7])); }

// ---------------------------------------------------------------- exponential and friends, f32

/// e^x within 1 ulp; exact at 0; subnormal results, overflow to infinity and NaN as IEEE has them.
inline F32x8 exp(F32x8 x) {
  constexpr float kRound = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  x = x > 89.0f ? splat(89.0f) : x;    // comparisons are false for NaN, which passes through
  x = x < -105.0f ? splat(-105.0f) : x;
  const F32x8 shifted = multiply_add(x, splat(0x1.715476p0f), splat(kRound));  // log2(e)
  const F32x8 n = shifted - kRound;
  // ln 2 in two parts; the first has 9 bits, so that its product with n is exact.
  const F32x8 r = multiply_add(n, splat(0x1.bd0106p-13f), multiply_add(n, splat(-0x1.63p-1f), x));
  // Taylor: |r| <= ln2/2 leaves a remainder of 5e-9. Summed in pairs (Estrin), which is a shorter chain than Horner's.
  const F32x8 r2 = r * r;
  const F32x8 low = multiply_add(r, splat(1.0f / 6), splat(0.5f)),
              middle = multiply_add(r, splat(1.0f / 120), splat(1.0f / 24)),
              high = multiply_add(r, splat(1.0f / 5040), splat(1.0f / 720));
  const F32x8 p = 1.0f + multiply_add(r2, multiply_add(r2, multiply_add(r2, high, middle), low), r);
  // 2^n in two factors, each a normal number, so that subnormal results are rounded once.
  const I32x8 e = std::bit_cast<I32x8>(shifted) - std::bit_cast<I32x8>(splat(kRound));
  const I32x8 half = e >> 1;
  const F32x8 a = std::bit_cast<F32x8>((half + 127) << 23), b = std::bit_cast<F32x8>((e - half + 127) << 23);
  return (p * a) * b;
}

inline F32x8 sigmoid(F32x8 x) { return 1.0f / (1.0f + exp(-x)); }
inline F32x8 silu(F32x8 x) { return x / (1.0f + exp(-x)); }

// ---------------------------------------------------------------- scalar functions in double, for few values

/// ln(1 + e^x), the whole range; x beyond 20, where the reference framework returns x too.
inline double softplus(double x) {
  if (x > 20.0) return x;
  const double e = portable_exp(x);
  return e < 1e-6 ? e - 0.5 * e * e : portable_log(1.0 + e);  // e^3/3 is far below half an ulp of f32
}

struct SinCos {
  double sin, cos;
};

/// Of an angle in radians, |angle| up to about 1e7, error below 1e-15: rounded to f32 it is the correctly rounded value
/// in practically all cases.
inline SinCos sin_cos(double angle) {
  constexpr double kRound = 0x1.8p52;
  const double shifted = angle * 0x1.45f306dc9c883p-1 + kRound;  // 2 / pi
  const double n = shifted - kRound;
  // pi/2 in three parts of 30, 30 and 53 bits: n has at most 23 bits, so the first two products are exact.
  const double r = ((angle - n * 0x1.921fb54p0) - n * 0x1.10b46118p-30) - n * 0x1.313198a2e037p-61;
  const double z = r * r;
  double s = 0.0, c = 0.0;
#pragma GCC unroll 8
  for (int k = 16; k >= 2; k -= 2) {  // reciprocals of constants: a division would cost more than the rest
    s = (1.0 - s) * (z * (1.0 / (k * (k + 1))));
    c = (1.0 - c) * (z * (1.0 / (k * (k - 1))));
  }
  const double sin_r = r * (1.0 - s), cos_r = 1.0 - c;
  switch (std::bit_cast<uint64_t>(shifted) & 3) {
    case 0:
      return {sin_r, cos_r};
    case 1:
      return {cos_r, -sin_r};
    case 2:
      return {-sin_r, -cos_r};
    default:
      return {-cos_r, sin_r};
  }
}

}  // namespace kvcal::cpu
