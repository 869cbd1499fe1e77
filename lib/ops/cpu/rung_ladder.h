// Rounding of blocks of 64 keys or values, and of queries, at the rungs of a ladder.
#pragma once

#include <bit>

#include "ops/cpu/attention_products.h"
#include "ops/cpu/math.h"
#include "ops/ops.h"

namespace kvcal::cpu {

inline F32x8 magnitude(F32x8 x) { return std::bit_cast<F32x8>(std::bit_cast<U32x8>(x) & 0x7FFFFFFFu); }

/// scale · E4M3(x / scale), saturating; the scale is a power of two.
inline F32x8 through_e4m3(F32x8 x, float scale, float inverse) {
  constexpr float kMax = 448.0f, kSteps = 0x1.8p14f;  // whose last bit is 2^-9, the subnormals' step
  const F32x8 y = x * inverse, size = magnitude(y);
  const U32x8 bits = std::bit_cast<U32x8>(size);
  const F32x8 normal = std::bit_cast<F32x8>((bits + 0x7FFFFu + ((bits >> 20) & 1u)) & ~0xFFFFFu);
  F32x8 r = size < 0x1p-6f ? (size + kSteps) - kSteps : normal;
  r = r > kMax ? splat(kMax) : r;
  const U32x8 sign = std::bit_cast<U32x8>(y) & 0x80000000u;
  return std::bit_cast<F32x8>(std::bit_cast<U32x8>(r) | sign) * scale;
}

/// The same of -127 .. 127.
inline F32x8 through_int8(F32x8 x, float scale, float inverse) {
  constexpr float kMax = 127.0f, kWhole = 0x1.8p23f;
  F32x8 y = x * inverse;
  y = y > kMax ? splat(kMax) : y;
  y = y < -kMax ? splat(-kMax) : y;
  return ((y + kWhole) - kWhole) * scale;
}

/// n values, a multiple of 8.
inline void round_values(const float* from, float* to, int64_t n, int rung, SampleFormat format) {
  const float scale = scale_of_rung(rung), inverse = 1.0f / scale;
  if (format == SampleFormat::E4m3)
    for (int64_t c = 0; c < n; c += kLanes) store8(to + c, through_e4m3(load8(from + c), scale, inverse));
  else
    for (int64_t c = 0; c < n; c += kLanes) store8(to + c, through_int8(load8(from + c), scale, inverse));
}

/// 64 rows of one head, widened; rows beyond `n` and columns beyond `width` are zeros.
struct Rows64 {
  float* data;  // [kKeys, stride]
  int64_t stride, width, n;
  float* row(int64_t j) const { return data + j * stride; }
};

inline void round_rows(const Rows64& x, int rung, SampleFormat format, const Rows64& to) {
  const int64_t n = (x.width + kLanes - 1) / kLanes * kLanes;
  for (int64_t j = 0; j < kKeys; ++j) round_values(x.row(j), to.row(j), n, rung, format);
}

}  // namespace kvcal::cpu
