// Kernels that make every value from those at its place: a thread has eight neighbours, read and written 16 bytes at a
// time where they begin at such addresses. F is a function of floats.
#pragma once

#include "kernels/device/row.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"

namespace kvcal::cuda {

constexpr int kMapThreads = 256;

/// The part of this thread; it is empty behind the last one.
template <bool kWhole>
__device__ Part<kWhole> part_of_thread(int64_t n) {
  const int64_t first = (int64_t{blockIdx.x} * kMapThreads + threadIdx.x) * kPack;
  return {first, n - first < kPack ? n - first : kPack};
}

/// z[i] = f(x[i])
template <class T, class F, bool kWhole>
__global__ void map_kernel(const T* __restrict__ x, T* __restrict__ z, int64_t n, F f) {
  const auto part = part_of_thread<kWhole>(n);
  if (part.n <= 0) return;
  float v[kPack];
  read_pack(v, x, part);
  for (float& e : v) e = f(e);
  write_pack(v, z, part);
}

/// z[i] = f(x[i], y[i])
template <class T, class Y, class F, bool kWhole>
__global__ void map_pair_kernel(const T* __restrict__ x, const Y* __restrict__ y, T* __restrict__ z, int64_t n, F f) {
  const auto part = part_of_thread<kWhole>(n);
  if (part.n <= 0) return;
  float v[kPack], w[kPack];
  read_pack(v, x, part);
  read_pack(w, y, part);
#pragma unroll
  for (int j = 0; j < kPack; ++j) v[j] = f(v[j], w[j]);
  write_pack(v, z, part);
}

/// z[row, i] = f(x[row, i], y[row]), rows of `width`
template <class T, class Y, class F, int kRowThreads, bool kWhole>
__global__ void map_rows_kernel(const T* __restrict__ x, const Y* __restrict__ y, T* __restrict__ z, Rows rows, F f) {
  const int64_t row = row_of_thread();
  if (row >= rows.count) return;
  const float of_row = widen(y[row]);
  each_pack<kRowThreads, kWhole>(rows.width, [&](const auto& part) {
    float v[kPack];
    read_pack(v, x + row * rows.width, part);
    for (float& e : v) e = f(e, of_row);
    write_pack(v, z + row * rows.width, part);
  });
}

/// z[row, i] = f(x[row, i], x[row, width + i]): x has rows of 2 width.
template <class T, class F, int kRowThreads, bool kWhole>
__global__ void map_halves_kernel(const T* __restrict__ x, T* __restrict__ z, Rows rows, F f) {
  const int64_t row = row_of_thread();
  if (row >= rows.count) return;
  const T* from = x + row * 2 * rows.width;
  each_pack<kRowThreads, kWhole>(rows.width, [&](const auto& part) {
    float v[kPack], w[kPack];
    read_pack(v, from, part);
    read_pack(w, from + rows.width, part);
#pragma unroll
    for (int j = 0; j < kPack; ++j) v[j] = f(v[j], w[j]);
    write_pack(v, z + row * rows.width, part);
  });
}

// ---------------------------------------------------------------- launchers

/// f<kWhole>(grid)
template <class F>
void over_values(int64_t n, bool whole, F&& f) {
  const dim3 grid(n_blocks(n, kMapThreads * kPack));
  whole ? f.template operator()<true>(grid) : f.template operator()<false>(grid);
}

template <class T, class F>
void map(const void* x, void* z, int64_t n, F f, cudaStream_t stream) {
  over_values(n, whole_parts(n, x, z), [&]<bool kWhole>(const dim3& grid) {
    launch(KVCAL_KERNEL(map_kernel<T, F, kWhole>), grid, dim3(kMapThreads), 0, stream, static_cast<const T*>(x),
           static_cast<T*>(z), n, f);
  });
}

template <class T, class Y, class F>
void map_pair(const void* x, const void* y, void* z, int64_t n, F f, cudaStream_t stream) {
  over_values(n, whole_parts(n, x, y, z), [&]<bool kWhole>(const dim3& grid) {
    launch(KVCAL_KERNEL(map_pair_kernel<T, Y, F, kWhole>), grid, dim3(kMapThreads), 0, stream, static_cast<const T*>(x),
           static_cast<const Y*>(y), static_cast<T*>(z), n, f);
  });
}

template <class T, class Y, class F>
void map_rows(const void* x, const void* y, void* z, const Rows& rows, F f, cudaStream_t stream) {
  with_row_threads(rows.count, rows.width, whole_parts(rows.width, x, z),
                   [&]<int kRowThreads, bool kWhole>(const dim3& grid, const dim3& block) {
                     launch(KVCAL_KERNEL(map_rows_kernel<T, Y, F, kRowThreads, kWhole>), grid, block, 0, stream,
                            static_cast<const T*>(x), static_cast<const Y*>(y), static_cast<T*>(z), rows, f);
                   });
}

template <class T, class F>
void map_halves(const void* x, void* z, const Rows& rows, F f, cudaStream_t stream) {
  with_row_threads(rows.count, rows.width, whole_parts(rows.width, x, z),
                   [&]<int kRowThreads, bool kWhole>(const dim3& grid, const dim3& block) {
                     launch(KVCAL_KERNEL(map_halves_kernel<T, F, kRowThreads, kWhole>), grid, block, 0, stream,
                            static_cast<const T*>(x), static_cast<T*>(z), rows, f);
                   });
}

}  // namespace kvcal::cuda
