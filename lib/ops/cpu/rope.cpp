// Rotary position embedding: a table of cosines and sines per token, then the rotation.
#include <algorithm>
#include <cstring>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/math.h"

namespace kvcal::cpu {
namespace {

/// One head, in place of T: pairs (i, i + half), or (2i, 2i + 1) if interleaved.
template <class T>
void rotate(const T* x, T* y, const T* cosine, const T* sine, int64_t half, bool interleaved) {
  if (interleaved) {
    for (int64_t i = 0; i < half; i += kLanes / 2) {
      const int64_t n = half - i;
      const F32x8 c4 = load(cosine + i, std::min<int64_t>(n, kLanes / 2)),
                  s4 = load(sine + i, std::min<int64_t>(n, kLanes / 2)), x4 = load(x + 2 * i, 2 * n);
      const F32x8 c = __builtin_shufflevector(c4, c4, 0, 0, 1, 1, 2, 2, 3, 3),
                  s = __builtin_shufflevector(s4, -s4, 8, 0, 9, 1, 10, 2, 11, 3),
                  turned = __builtin_shufflevector(x4, x4, 1, 0, 3, 2, 5, 4, 7, 6);
      store(y + 2 * i, x4 * c + turned * s, 2 * n);
    }
    return;
  }
  for (int64_t i = 0; i < half; i += kLanes) {
    const int64_t n = half - i;
    const F32x8 a = load(x + i, n), b = load(x + half + i, n), c = load(cosine + i, n), s = load(sine + i, n);
    store(y + i, a * c - b * s, n);
    store(y + half + i, b * c + a * s, n);
  }
}

}  // namespace

Tensor CpuBackend::do_rope_table(std::span<const int32_t> positions, int64_t n_tokens, const RopeSpec& spec) {
  const int64_t half = spec.rotary_dim / 2;
  const Tensor table = activation({n_tokens, 2, half});
  visit_activation(table.dtype, [&](auto tag) {
    using T = decltype(tag);
    constexpr int64_t kCost = 32;  // of one angle, in elementwise operations
    parallel_rows(n_tokens, half * kCost, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t)
        for (int64_t i = 0; i < half; ++i) {
          const int64_t axis = spec.axis.empty() ? 0 : spec.axis[static_cast<size_t>(i)];
          const auto position = static_cast<float>(positions[static_cast<size_t>(axis * n_tokens + t)]);
          const SinCos a = sin_cos(double{position * spec.inverse_frequency[static_cast<size_t>(i)]});
          T* row = table.as<T>() + t * 2 * half;
          store(row + i, splat(static_cast<float>(a.cos) * spec.magnitude), 1);
          store(row + half + i, splat(static_cast<float>(a.sin) * spec.magnitude), 1);
        }
    });
  });
  return table;
}

Tensor CpuBackend::do_rope(const Tensor& x, const Tensor& table, const RopeSpec& spec) {
  const Tensor y = activation(x.shape);
  const int64_t heads = x.dim(1), head_dim = x.dim(2), half = spec.rotary_dim / 2;
  visit_activation(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel_rows(x.dim(0), heads * head_dim, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin * heads; row < end * heads; ++row) {
        const T* cosine = table.as<T>() + row / heads * 2 * half;
        const T* from = x.as<T>() + row * head_dim;
        T* to = y.as<T>() + row * head_dim;
        rotate(from, to, cosine, cosine + half, half, spec.interleaved);
        std::memcpy(to + 2 * half, from + 2 * half, static_cast<size_t>(head_dim - 2 * half) * sizeof(T));
      }
    });
  });
  return y;
}

}  // namespace kvcal::cpu
