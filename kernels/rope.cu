// Rotary position embedding: a table of cosines and sines per token, then the rotation.
#include "kernels/device/row.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

constexpr int kThreads = 256;

/// The angle is an f32 product; its cosine in double, rounded once, is the correctly rounded one in practically all
/// cases, which float functions with their few ulps are not.
template <class T>
__global__ void rope_table_kernel(RopeAngles angles, T* __restrict__ table, int64_t tokens, int64_t half) {
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= tokens * half) return;
  const int64_t token = i / half, pair = i % half;
  const auto position = static_cast<float>(angles.positions[angles.axis[pair] * tokens + token]);
  const auto angle = static_cast<double>(position * angles.inverse_frequency[pair]);
  T* row = table + token * 2 * half;
  row[pair] = narrow<T>(static_cast<float>(cos(angle)) * angles.magnitude);
  row[half + pair] = narrow<T>(static_cast<float>(sin(angle)) * angles.magnitude);
}

/// One thread per pair, and per channel that passes through.
template <class T>
__global__ void rope_kernel(const T* __restrict__ x, const T* __restrict__ table, T* __restrict__ y, RopeShape s) {
  const int64_t items = s.head_dim - s.half;
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= s.tokens * s.heads * items) return;
  const int64_t row = i / items, item = i % items;
  x += row * s.head_dim;
  y += row * s.head_dim;
  if (item >= s.half) {
    y[s.half + item] = x[s.half + item];
    return;
  }
  const T* cosine = table + row / s.heads * 2 * s.half;
  const int64_t first = s.interleaved ? 2 * item : item, second = s.interleaved ? first + 1 : item + s.half;
  const float a = widen(x[first]), b = widen(x[second]), c = widen(cosine[item]), d = widen(cosine[s.half + item]);
  y[first] = narrow<T>(turned_first(a, b, c, d));
  y[second] = narrow<T>(turned_second(a, b, c, d));
}

}  // namespace

// ---------------------------------------------------------------- launchers

void rope_table(DType t, const RopeAngles& angles, void* table, int64_t tokens, int64_t half, cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    launch(KVCAL_KERNEL(rope_table_kernel<T>), dim3(n_blocks(tokens * half, kThreads)), dim3(kThreads), 0, stream,
           angles, static_cast<T*>(table), tokens, half);
  });
}

void rope(DType t, const void* x, const void* table, void* y, const RopeShape& shape, cudaStream_t stream) {
  const int64_t n = shape.tokens * shape.heads * (shape.head_dim - shape.half);
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    launch(KVCAL_KERNEL(rope_kernel<T>), dim3(n_blocks(n, kThreads)), dim3(kThreads), 0, stream,
           static_cast<const T*>(x), static_cast<const T*>(table), static_cast<T*>(y), shape);
  });
}

}  // namespace kvcal::cuda
