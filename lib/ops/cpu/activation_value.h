// Activations one at a time, for loops that compute in f32 whatever the activation dtype.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tensor/dtype.h"

namespace kvcal::cpu {

inline float widened(float x) { return x; }
inline float widened(bf16 x) { return to_float(x); }

/// x as T; rounded where that is bf16.
template <class T>
T narrowed(float x) {
  if constexpr (sizeof(T) == sizeof(bf16))
    return to_bf16(x);
  else
    return x;
}

/// Largest magnitude of x [n]; a NaN does not count.
template <class T>
float absmax_of(const T* x, int64_t n) {
  float absmax = 0.0f;
  for (int64_t i = 0; i < n; ++i) absmax = std::max(absmax, std::fabs(widened(x[i])));
  return absmax;
}

}  // namespace kvcal::cpu
