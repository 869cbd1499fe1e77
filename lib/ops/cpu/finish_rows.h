// What becomes of a panel's product: the bias is added, and rows are rounded to the type they are stored in.
#pragma once

#include "ops/cpu/math.h"
#ifdef KVCAL_AVX512_BF16
#include "ops/cpu/pair_gemm.h"
#endif

namespace kvcal::cpu {

/// product F32 [n, columns] -> `to`, its rows `to_row` elements apart. bias: of these columns, or null. pairs: whether
/// pair_gemm.h may be used.
template <class T>
void finish_rows(const float* product, int64_t n, int64_t columns, const float* bias, T* to, int64_t to_row,
                 [[maybe_unused]] bool pairs) {
#ifdef KVCAL_AVX512_BF16
  if constexpr (sizeof(T) == sizeof(bf16)) {
    if (pairs && !bias) {
      for (int64_t i = 0; i < n; ++i) narrow(product + i * columns, columns, to + i * to_row);
      return;
    }
  }
#endif
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < columns; c += kLanes) {
      const int64_t left = columns - c;
      const F32x8 v = load(product + i * columns + c, left);
      store(to + i * to_row + c, bias ? v + load(bias + c, left) : v, left);
    }
}

}  // namespace kvcal::cpu
