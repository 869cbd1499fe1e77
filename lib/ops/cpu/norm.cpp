// Norms over the last dimension.
#include <cmath>
#include <vector>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/math.h"
#include "ops/cpu/row_sums.h"

namespace kvcal::cpu {
namespace {

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
          if (!gain)
            store(to + i, normed, left);
          else if (gain.dtype == DType::F32)
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

Tensor CpuBackend::do_layer_norm(const Tensor& x, const Tensor& gain, const Tensor& bias, float eps) {
  const Tensor y = activation(x.shape);
  const int64_t n = x.dim(-1), rows = n > 0 ? x.elements() / n : 0, turns = gain ? gain.elements() / n : 1;
  visit_activation(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel_rows(rows, n, [&](int64_t begin, int64_t end) {
      std::vector<float> centred(static_cast<size_t>(n));
      for (int64_t r = begin; r < end; ++r) {
        const T* from = x.as<T>() + r * n;
        const float mean = sum_of(from, n) / static_cast<float>(n);
        for (int64_t i = 0; i < n; i += kLanes) store(centred.data() + i, load(from + i, n - i) - mean, n - i);
        const float inverse = inverse_rms(sum_of_squares(centred.data(), n), n, eps);
        const float* w = gain ? gain.as<float>() + r % turns * n : nullptr;
        for (int64_t i = 0; i < n; i += kLanes) {
          const int64_t left = n - i;
          F32x8 v = load(centred.data() + i, left) * inverse;
          if (w) v = v * load(w + i, left);
          if (bias) v = v + load(bias.as<float>() + i, left);
          store(y.as<T>() + r * n + i, v, left);
        }
      }
    });
  });
  return y;
}

Tensor CpuBackend::do_gated_rms_norm(const Tensor& x, const Tensor& z, const GatedNormSpec& spec) {
  const Tensor y = activation(x.shape);
  const int64_t width = x.dim(-1), n = width / spec.n_groups, rows = n > 0 ? x.elements() / n : 0;
  const bool gate_first = spec.order == GateOrder::BeforeNorm;
  visit_activation(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel_rows(rows, n, [&](int64_t begin, int64_t end) {
      std::vector<float> values(static_cast<size_t>(n));
      for (int64_t r = begin; r < end; ++r) {
        const float* gain = spec.gain.as<float>() + r % spec.n_groups * n;
        const auto gate = [&](int64_t i) {
          const F32x8 v = load(z.as<T>() + r * n + i, n - i);
          return spec.act == GateActivation::Silu ? silu(v) : sigmoid(v);
        };
        for (int64_t i = 0; i < n; i += kLanes) {
          const F32x8 v = load(x.as<T>() + r * n + i, n - i);
          store(values.data() + i, gate_first ? v * gate(i) : v, n - i);
        }
        const float inverse = inverse_rms(sum_of_squares(values.data(), n), n, spec.eps);
        for (int64_t i = 0; i < n; i += kLanes) {
          const F32x8 scaled = load(values.data() + i, n - i) * inverse * load(gain + i, n - i);
          store(y.as<T>() + r * n + i, gate_first ? scaled : scaled * gate(i), n - i);
        }
      }
    });
  });
  return y;
}

}  // namespace kvcal::cpu
