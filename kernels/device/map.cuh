// Kernels that make every value from those at its place: a thread has eight neighbours, read and written 16 bytes at a
// time where they begin at such addresses. F is a function of floats.
#pragma once

#include "kernels/device/row.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"

namespace kvcal::cuda {

constexpr int kMapThreads = 256;

__device__ inline int64_t first_of_thread() { return (int64_t{blockIdx.x} * kMapThreads + threadIdx.x) * kPack; }

/// z[i] = f(x[i])
template <class T, class F>
__global__ void map_kernel(const T* __restrict__ x, T* __restrict__ z, int64_t n, F f, bool vectors) {
  const int64_t first = first_of_thread();
  if (first >= n) return;
  float v[kPack];
  read_pack(v, x, first, n - first, vectors);
  for (float& e : v) e = f(e);
  write_pack(v, z, first, n - first, vectors);
}

/// z[i] = f(x[i], y[i])
template <class T, class Y, class F>
__global__ void map_pair_kernel(const T* __restrict__ x, const Y* __restrict__ y, T* __restrict__ z, int64_t n, F f,
                                bool vectors) {
  const int64_t first = first_of_thread();
  if (first >= n) return;
  float v[kPack], w[kPack];
  read_pack(v, x, first, n - first, vectors);
  read_pack(w, y, first, n - first, vectors);
#pragma unroll
  for (int j = 0; j < kPack; ++j) v[j] = f(v[j], w[j]);
  write_pack(v, z, first, n - first, vectors);
}

/// z[row, i] = f(x[row, i], y[row]), rows of `width`
template <class T, class Y, class F>
__global__ void map_rows_kernel(const T* __restrict__ x, const Y* __restrict__ y, T* __restrict__ z, int64_t n,
                                int64_t width, F f, bool vectors) {
  const int64_t first = first_of_thread();
  if (first >= n) return;
  float v[kPack];
  read_pack(v, x, first, n - first, vectors);
  int64_t row = first / width, column = first % width;
#pragma unroll
  for (int j = 0; j < kPack; ++j) {
    if (first + j < n) v[j] = f(v[j], widen(y[row]));
    if (++column < width) continue;
    column = 0;
    ++row;
  }
  write_pack(v, z, first, n - first, vectors);
}

/// z[row, i] = f(x[row, i], x[row, width + i]): x has rows of 2 width.
template <class T, class F>
__global__ void map_halves_kernel(const T* __restrict__ x, T* __restrict__ z, int64_t rows, int64_t width, F f,
                                  bool vectors) {
  const int64_t packs = (width + kPack - 1) / kPack, pack = int64_t{blockIdx.x} * kMapThreads + threadIdx.x;
  const int64_t row = pack / packs, first = pack % packs * kPack;
  if (row >= rows) return;
  const T* from = x + row * 2 * width;
  float v[kPack], w[kPack];
  read_pack(v, from, first, width - first, vectors);
  read_pack(w, from + width, first, width - first, vectors);
#pragma unroll
  for (int j = 0; j < kPack; ++j) v[j] = f(v[j], w[j]);
  write_pack(v, z + row * width, first, width - first, vectors);
}

// ---------------------------------------------------------------- launchers

template <class T, class F>
void map(const void* x, void* z, int64_t n, F f, cudaStream_t stream) {
  launch(KVCAL_KERNEL(map_kernel<T, F>), dim3(n_blocks(n, kMapThreads * kPack)), dim3(kMapThreads), 0, stream,
         static_cast<const T*>(x), static_cast<T*>(z), n, f, rows_in_vectors(kPack, x, z));
}

template <class T, class Y, class F>
void map_pair(const void* x, const void* y, void* z, int64_t n, F f, cudaStream_t stream) {
  launch(KVCAL_KERNEL(map_pair_kernel<T, Y, F>), dim3(n_blocks(n, kMapThreads * kPack)), dim3(kMapThreads), 0, stream,
         static_cast<const T*>(x), static_cast<const Y*>(y), static_cast<T*>(z), n, f, rows_in_vectors(kPack, x, y, z));
}

template <class T, class Y, class F>
void map_rows(const void* x, const void* y, void* z, const Rows& rows, F f, cudaStream_t stream) {
  const int64_t n = rows.count * rows.width;
  launch(KVCAL_KERNEL(map_rows_kernel<T, Y, F>), dim3(n_blocks(n, kMapThreads * kPack)), dim3(kMapThreads), 0, stream,
         static_cast<const T*>(x), static_cast<const Y*>(y), static_cast<T*>(z), n, rows.width, f,
         rows_in_vectors(kPack, x, z));
}

template <class T, class F>
void map_halves(const void* x, void* z, const Rows& rows, F f, cudaStream_t stream) {
  launch(KVCAL_KERNEL(map_halves_kernel<T, F>), dim3(n_blocks(rows.count * n_blocks(rows.width, kPack), kMapThreads)),
         dim3(kMapThreads), 0, stream, static_cast<const T*>(x), static_cast<T*>(z), rows.count, rows.width, f,
         rows_in_vectors(rows.width, x, z));
}

}  // namespace kvcal::cuda
