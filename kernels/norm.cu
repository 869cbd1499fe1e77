// Norms over the last dimension: a warp for a short row (the heads' norms), a block for a long one.
#include "kernels/device/real.cuh"
#include "kernels/device/reduce.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int64_t kShortRow = 1024;

/// Blocks have kRowThreads x (kBlock / kRowThreads) threads: dimension y counts rows.
__device__ int64_t row_of_thread() { return int64_t{blockIdx.x} * blockDim.y + threadIdx.y; }

template <int kRowThreads, class T>
__device__ float sum_of_squares(const T* row, int64_t width) {
  float sum = 0.0f;
  for (int64_t i = threadIdx.x; i < width; i += kRowThreads) {
    const float x = widen(row[i]);
    sum += x * x;
  }
  return row_reduce<kRowThreads>(sum, Sum());
}

/// A bf16 gain multiplies the rounded norm, an f32 gain the unrounded one.
template <class T, class G, int kRowThreads>
__global__ void rms_norm_kernel(const T* __restrict__ x, const G* __restrict__ gain, T* __restrict__ y, int64_t n_rows,
                                int64_t width, float eps) {
  const int64_t row = row_of_thread();
  if (row >= n_rows) return;
  x += row * width;
  y += row * width;
  const float squares = sum_of_squares<kRowThreads>(x, width);
  const float inverse = 1.0f / sqrtf(squares / static_cast<float>(width) + eps);
  for (int64_t i = threadIdx.x; i < width; i += kRowThreads) {
    const float normed = widen(x[i]) * inverse;
    y[i] = narrow<T>((sizeof(G) == sizeof(bf16) ? rounded_to<T>(normed) : normed) * widen(gain[i]));
  }
}

template <class T, int kRowThreads>
__global__ void l2_norm_kernel(const T* __restrict__ x, T* __restrict__ y, int64_t n_rows, int64_t width, float eps) {
  const int64_t row = row_of_thread();
  if (row >= n_rows) return;
  x += row * width;
  y += row * width;
  const float inverse = 1.0f / sqrtf(sum_of_squares<kRowThreads>(x, width) + eps);
  for (int64_t i = threadIdx.x; i < width; i += kRowThreads) y[i] = narrow<T>(widen(x[i]) * inverse);
}

template <class T, int kRowThreads>
__global__ void gated_rms_norm_kernel(const T* __restrict__ x, const T* __restrict__ z, const float* __restrict__ gain,
                                      T* __restrict__ y, int64_t n_rows, int64_t width, float eps, bool use_silu) {
  const int64_t row = row_of_thread();
  if (row >= n_rows) return;
  x += row * width;
  y += row * width;
  z += row * width;
  const float squares = sum_of_squares<kRowThreads>(x, width);
  const float inverse = 1.0f / sqrtf(squares / static_cast<float>(width) + eps);
  for (int64_t i = threadIdx.x; i < width; i += kRowThreads) {
    const float gate = widen(z[i]);
    y[i] = narrow<T>(widen(x[i]) * inverse * gain[i] * (use_silu ? silu(gate) : sigmoid(gate)));
  }
}

/// f<kRowThreads>(grid, block) for the threads that suit the width.
template <class F>
void with_row_threads(const Rows& rows, F&& f) {
  if (rows.width <= kShortRow)
    f.template operator()<kWarp>(dim3(n_blocks(rows.count, kBlock / kWarp)), dim3(kWarp, kBlock / kWarp));
  else
    f.template operator()<kBlock>(dim3(n_blocks(rows.count, 1)), dim3(kBlock));
}

template <class T, class G>
void rms_norm_of(const void* x, const void* gain, float eps, void* y, const Rows& rows, cudaStream_t stream) {
  with_row_threads(rows, [&]<int kRowThreads>(const dim3& grid, const dim3& block) {
    launch(KVCAL_KERNEL(rms_norm_kernel<T, G, kRowThreads>), grid, block, 0, stream, static_cast<const T*>(x),
           static_cast<const G*>(gain), static_cast<T*>(y), rows.count, rows.width, eps);
  });
}

}  // namespace

// ---------------------------------------------------------------- launchers

void rms_norm(DType t, const void* x, const void* gain, DType gain_type, float eps, void* y, const Rows& rows,
              cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    visit_activation(gain_type, [&](auto gain_tag) {
      rms_norm_of<decltype(tag), decltype(gain_tag)>(x, gain, eps, y, rows, stream);
    });
  });
}

void l2_norm(DType t, const void* x, float eps, void* y, const Rows& rows, cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    with_row_threads(rows, [&]<int kRowThreads>(const dim3& grid, const dim3& block) {
      launch(KVCAL_KERNEL(l2_norm_kernel<T, kRowThreads>), grid, block, 0, stream, static_cast<const T*>(x),
             static_cast<T*>(y), rows.count, rows.width, eps);
    });
  });
}

void gated_rms_norm(DType t, const GatedNorm& norm, const Rows& rows, cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    with_row_threads(rows, [&]<int kRowThreads>(const dim3& grid, const dim3& block) {
      launch(KVCAL_KERNEL(gated_rms_norm_kernel<T, kRowThreads>), grid, block, 0, stream, static_cast<const T*>(norm.x),
             static_cast<const T*>(norm.z), norm.gain, static_cast<T*>(norm.y), rows.count, rows.width, norm.eps,
             norm.activation == GateActivation::Silu);
    });
  });
}

}  // namespace kvcal::cuda
