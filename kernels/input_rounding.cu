// Inputs of linear layers rounded to FP8 and back, as servers of quantised checkpoints round them. A few threads take a
// run of columns that shares a scale.
#include <algorithm>

#include "kernels/device/row.cuh"
#include "kernels/device/small_floats.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

__device__ float scale_of(float absmax, const InputRounding& rounding) {
  const float scale = fmaxf(fminf(absmax, rounding.most_absmax) / kMostE4m3, rounding.least_scale);
  return rounding.power_of_two ? __uint_as_float((__float_as_uint(scale) + 0x7FFFFFu) & 0x7F800000u) : scale;
}

/// Runs of `step` columns, the last of a row perhaps shorter.
struct Runs {
  int64_t count, in_row, step, width;
};

template <class T, int kRunThreads, bool kWhole>
__global__ void round_input_kernel(const T* __restrict__ x, T* __restrict__ y, Runs runs, InputRounding rounding) {
  const int64_t run = row_of_thread();
  if (run >= runs.count) return;
  const int64_t column = run % runs.in_row * runs.step, first = run / runs.in_row * runs.width + column;
  const int64_t left = runs.width - column, n_columns = left < runs.step ? left : runs.step;
  const bool fixed = rounding.scale > 0;
  float scale = rounding.scale;
  if (!fixed) {
    float absmax = 0.0f;
    each_pack<kRunThreads, kWhole>(n_columns, [&](const auto& part) {
      float v[kPack];
      read_pack(v, x + first, part);
#pragma unroll
      for (int j = 0; j < kPack; ++j) absmax = fmaxf(absmax, fabsf(v[j]));
    });
    scale = scale_of(row_reduce<kRunThreads>(absmax, Maximum()), rounding);
  }
  const float inverse = 1.0f / scale;
  each_pack<kRunThreads, kWhole>(n_columns, [&](const auto& part) {
    float v[kPack];
    read_pack(v, x + first, part);
#pragma unroll
    for (int j = 0; j < kPack; ++j) v[j] = rounded_to_e4m3(fixed ? v[j] * inverse : v[j] / scale) * scale;
    write_pack(v, y + first, part);
  });
}

}  // namespace

void round_input(DType t, const void* x, const InputRounding& rounding, void* y, const Rows& rows,
                 cudaStream_t stream) {
  if (rows.width == 0) return;
  const int64_t step = rounding.scale > 0 ? rows.width : std::min(rounding.group, rows.width);
  const int64_t in_row = (rows.width + step - 1) / step;
  const Runs runs{rows.count * in_row, in_row, step, rows.width};
  const bool whole = whole_parts(rows.width, x, y) && step % kPack == 0;
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    with_row_threads(runs.count, step, whole, [&]<int kRunThreads, bool kWhole>(const dim3& grid, const dim3& block) {
      launch(KVCAL_KERNEL(round_input_kernel<T, kRunThreads, kWhole>), grid, block, 0, stream, static_cast<const T*>(x),
             static_cast<T*>(y), runs, rounding);
    });
  });
}

}  // namespace kvcal::cuda
