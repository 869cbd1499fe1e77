// What models with several residual streams, or with sparse gates, do to rows.
#include "kernels/device/row.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

/// A row of the result is stream i of a token.
template <class T, int kRowThreads, bool kWhole>
__global__ void mix_streams_kernel(const T* __restrict__ x, const T* __restrict__ w, T* __restrict__ y, int64_t n_rows,
                                   int64_t width, int64_t n, int64_t m) {
  const int64_t row = row_of_thread();
  if (row >= n_rows) return;
  x += row / m * n * width;
  w += row * n;
  y += row * width;
  each_pack<kRowThreads, kWhole>(width, [&](const auto& part) {
    float sum[kPack] = {};
    for (int64_t j = 0; j < n; ++j) {
      const float factor = widen(w[j]);
      float v[kPack];
      read_pack(v, x + j * width, part);
#pragma unroll
      for (int k = 0; k < kPack; ++k) sum[k] = fmaf(factor, v[k], sum[k]);
    }
    write_pack(sum, y, part);
  });
}

template <int kRowThreads, bool kWhole, class T>
__device__ float rms(const T* row, int64_t width) {
  return sqrtf(sum_of_squares<kRowThreads, kWhole>(row, width) / static_cast<float>(width));
}

template <class T, int kRowThreads, bool kWhole>
__global__ void match_rms_kernel(const T* __restrict__ x, const T* __restrict__ like, T* __restrict__ y, int64_t n_rows,
                                 int64_t width, float least) {
  const int64_t row = row_of_thread();
  if (row >= n_rows) return;
  x += row * width;
  const float own = rms<kRowThreads, kWhole>(x, width);
  const float factor = rms<kRowThreads, kWhole>(like + row * width, width) / (own < least ? least : own);
  each_pack<kRowThreads, kWhole>(width, [&](const auto& part) {
    float v[kPack];
    read_pack(v, x, part);
    for (float& e : v) e *= factor;
    write_pack(v, y + row * width, part);
  });
}

/// The values are read three times, as by the layer norm.
template <class T, int kRowThreads, bool kWhole>
__global__ void keep_above_kernel(const T* __restrict__ x, T* __restrict__ y, int64_t n_rows, int64_t width,
                                  float deviations) {
  const int64_t row = row_of_thread();
  if (row >= n_rows) return;
  x += row * width;
  const Moments about = moments<kRowThreads, kWhole>(x, width);
  const float cutoff = about.mean + deviations * sqrtf(about.squares / static_cast<float>(width));
  each_pack<kRowThreads, kWhole>(width, [&](const auto& part) {
    float v[kPack];
    read_pack(v, x, part);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      const float above = v[j] - cutoff;
      v[j] = above < 0.0f ? 0.0f : above;  // what is no number stays none
    }
    write_pack(v, y + row * width, part);
  });
}

}  // namespace

// ---------------------------------------------------------------- launchers

void mix_streams(DType t, const MixedStreams& mixed, int64_t tokens, int64_t width, cudaStream_t stream) {
  const int64_t n_rows = tokens * mixed.m;
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    with_row_threads(n_rows, width, whole_parts(width, mixed.x, mixed.y),
                     [&]<int kRowThreads, bool kWhole>(const dim3& grid, const dim3& block) {
                       launch(KVCAL_KERNEL(mix_streams_kernel<T, kRowThreads, kWhole>), grid, block, 0, stream,
                              static_cast<const T*>(mixed.x), static_cast<const T*>(mixed.w), static_cast<T*>(mixed.y),
                              n_rows, width, mixed.n, mixed.m);
                     });
  });
}

void match_rms(DType t, const void* x, const void* like, float least, void* y, const Rows& rows, cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    with_row_threads(rows.count, rows.width, whole_parts(rows.width, x, like, y),
                     [&]<int kRowThreads, bool kWhole>(const dim3& grid, const dim3& block) {
                       launch(KVCAL_KERNEL(match_rms_kernel<T, kRowThreads, kWhole>), grid, block, 0, stream,
                              static_cast<const T*>(x), static_cast<const T*>(like), static_cast<T*>(y), rows.count,
                              rows.width, least);
                     });
  });
}

void keep_above(DType t, const void* x, float deviations, void* y, const Rows& rows, cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    with_row_threads(rows.count, rows.width, whole_parts(rows.width, x, y),
                     [&]<int kRowThreads, bool kWhole>(const dim3& grid, const dim3& block) {
                       launch(KVCAL_KERNEL(keep_above_kernel<T, kRowThreads, kWhole>), grid, block, 0, stream,
                              static_cast<const T*>(x), static_cast<T*>(y), rows.count, rows.width, deviations);
                     });
  });
}

}  // namespace kvcal::cuda
