// Inputs of linear layers rounded to FP8 and back, as servers of quantised checkpoints round them.
#include <algorithm>

#include "ops/cpu/activation_value.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/math.h"
#include "tensor/small_floats.h"

namespace kvcal::cpu {
namespace {

/// x[0, n), which share a dynamic scale.
template <class T>
float scale_of(const T* x, int64_t n, const InputRounding& rounding) {
  const float scale = std::max(std::min(absmax_of(x, n), rounding.most_absmax) / 448.0f, rounding.least_scale);
  return rounding.power_of_two ? next_power_of_two(scale) : scale;
}

template <class T>
void round_run(const T* x, T* y, int64_t n, const InputRounding& rounding) {
  const bool fixed = rounding.scale > 0;
  const float scale = fixed ? rounding.scale : scale_of(x, n, rounding), inverse = 1.0f / scale;
  for (int64_t i = 0; i < n; ++i) {
    const float value = widened(x[i]);
    y[i] = narrowed<T>(round_to_e4m3(fixed ? value * inverse : value / scale) * scale);
  }
}

}  // namespace

void CpuBackend::round_rows(const Tensor& x, const Tensor& y, int64_t rows, const InputRounding& rounding) {
  const int64_t width = x.dim(-1), step = rounding.scale > 0 ? width : std::min(rounding.group, width);
  visit_activation(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel_rows(rows, width, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        for (int64_t c = 0; c < width; c += step)
          round_run(x.as<T>() + r * width + c, y.as<T>() + r * width + c, std::min(step, width - c), rounding);
    });
  });
}

Tensor CpuBackend::do_round_input(const Tensor& x, const InputRounding& rounding) {
  const Tensor y = activation(x.shape);
  round_rows(x, y, x.dim(-1) > 0 ? x.elements() / x.dim(-1) : 0, rounding);
  return y;
}

}  // namespace kvcal::cpu
