// What models with several residual streams, or with sparse gates, do to rows: f32 inside, one rounding.
#include <cmath>
#include <vector>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/math.h"
#include "ops/cpu/row_sums.h"

namespace kvcal::cpu {

Tensor CpuBackend::do_mix_streams(const Tensor& x, const Tensor& w) {
  const int64_t n = x.dim(1), m = n > 0 ? w.dim(1) / n : 0, dim = x.dim(2);
  const Tensor y = activation({x.dim(0), m, dim});
  visit_activation(y.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel_rows(x.dim(0) * m, n * dim, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const T *from = x.as<T>() + r / m * n * dim, *weights = w.as<T>() + r * n;
        for (int64_t i = 0; i < dim; i += kLanes) {
          F32x8 sum{};
          for (int64_t j = 0; j < n; ++j) sum += load(weights + j, 1)[0] * load(from + j * dim + i, dim - i);
          store(y.as<T>() + r * dim + i, sum, dim - i);
        }
      }
    });
  });
  return y;
}

Tensor CpuBackend::do_match_rms(const Tensor& x, const Tensor& like, float least) {
  const Tensor y = activation(x.shape);
  const int64_t n = x.dim(-1), rows = n > 0 ? x.elements() / n : 0;
  visit_activation(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    const auto rms = [&](const Tensor& t, int64_t r) {
      return std::sqrt(sum_of_squares(t.as<T>() + r * n, n) / static_cast<float>(n));
    };
    parallel_rows(rows, n, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float own = rms(x, r), factor = rms(like, r) / (own < least ? least : own);
        for (int64_t i = 0; i < n; i += kLanes)
          store(y.as<T>() + r * n + i, load(x.as<T>() + r * n + i, n - i) * factor, n - i);
      }
    });
  });
  return y;
}

Tensor CpuBackend::do_keep_above(const Tensor& x, float deviations) {
  const Tensor y = activation(x.shape);
  const int64_t n = x.dim(-1), rows = n > 0 ? x.elements() / n : 0;
  visit_activation(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel_rows(rows, n, [&](int64_t begin, int64_t end) {
      std::vector<float> centred(static_cast<size_t>(n));
      for (int64_t r = begin; r < end; ++r) {
        const T* from = x.as<T>() + r * n;
        const float mean = sum_of(from, n) / static_cast<float>(n);
        for (int64_t i = 0; i < n; i += kLanes) store(centred.data() + i, load(from + i, n - i) - mean, n - i);
        const float cutoff = mean + deviations * std::sqrt(sum_of_squares(centred.data(), n) / static_cast<float>(n));
        for (int64_t i = 0; i < n; i += kLanes) {
          const F32x8 above = load(from + i, n - i) - cutoff;
          store(y.as<T>() + r * n + i, above < 0 ? F32x8{} : above, n - i);  // what is no number stays none
        }
      }
    });
  });
  return y;
}

}  // namespace kvcal::cpu
