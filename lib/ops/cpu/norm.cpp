// Norms over the last dimension. A row's sum of squares is always taken in 16 lanes that are added in a fixed tree.
#include <cmath>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/math.h"

namespace kvcal::cpu {
namespace {

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

/// 1 / sqrt(mean + eps): sqrt and division are correctly rounded everywhere.
float inverse_rms(float squares, int64_t n, float eps) {
  return 1.0f / std::sqrt(squares / static_cast<float>(n) + eps);
}

}  // namespace

Tensor CpuBackend::do_rms_norm(const Tensor& x, const Tensor& gain, float eps) {
  const Tensor y = activation(x.shape);
  const int64_t n = x.dim(-1), rows = n > 0 ? x.elements() / n : 0;
  visit_activation(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel_rows(rows, n, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* from = x.as<T>() + r * n;
        T* to = y.as<T>() + r * n;
        const float inverse = inverse_rms(sum_of_squares(from, n), n, eps);
        for (int64_t i = 0; i < n; i += kLanes) {
          const int64_t left = n - i;
          const F32x8 normed = load(from + i, left) * inverse;
          if (gain.dtype == DType::F32)
            store(to + i, normed * load(gain.as<float>() + i, left), left);
          else
            store(to + i, rounded_to<T>(normed) * load(gain.as<bf16>() + i, left), left);
        }
      }
    });
  });
  return y;
}

Tensor CpuBackend::do_l2_norm(const Tensor& x, float eps) {
  const Tensor y = activation(x.shape);
  const int64_t n = x.dim(-1), rows = n > 0 ? x.elements() / n : 0;
  visit_activation(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel_rows(rows, n, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* from = x.as<T>() + r * n;
        const float inverse = 1.0f / std::sqrt(sum_of_squares(from, n) + eps);
        for (int64_t i = 0; i < n; i += kLanes) store(y.as<T>() + r * n + i, load(from + i, n - i) * inverse, n - i);
      }
    });
  });
  return y;
}

Tensor CpuBackend::do_gated_rms_norm(const Tensor& x, const Tensor& z, const Tensor& gain, float eps,
                                     GateActivation act) {
  const Tensor y = activation(x.shape);
  const int64_t n = x.dim(-1), rows = n > 0 ? x.elements() / n : 0;
  visit_activation(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel_rows(rows, n, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T* from = x.as<T>() + r * n;
        const float inverse = inverse_rms(sum_of_squares(from, n), n, eps);
        for (int64_t i = 0; i < n; i += kLanes) {
          const int64_t left = n - i;
          const F32x8 gate = load(z.as<T>() + r * n + i, left);
          const F32x8 scaled = load(from + i, left) * inverse * load(gain.as<float>() + i, left);
          store(y.as<T>() + r * n + i, scaled * (act == GateActivation::Silu ? silu(gate) : sigmoid(gate)), left);
        }
      }
    });
  });
  return y;
}

}  // namespace kvcal::cpu
