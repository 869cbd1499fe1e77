// Sums over a row, in lanes that are added in a fixed tree: 8, of squares 16.
#pragma once

#include "ops/cpu/math.h"

namespace kvcal::cpu {

template <class T>
float sum_of_squares(const T* x, int64_t n) {
  F32x8 even{}, odd{};
  for (int64_t i = 0; i < n; i += 2 * kLanes) {
    const F32x8 a = load(x + i, n - i);
    even += a * a;
    if (n - i <= kLanes) break;
    const F32x8 b = load(x + i + kLanes, n - i - kLanes);
    odd += b * b;
  }
  return sum(even + odd);
}

template <class T>
float sum_of(const T* x, int64_t n) {
  F32x8 total{};
  for (int64_t i = 0; i < n; i += kLanes) total += load(x + i, n - i);
  return sum(total);
}

}  // namespace kvcal::cpu
