// Rows of activations, read by a few threads together: each takes eight neighbours at a time, 16 bytes in one access
// where rows begin at such addresses. Which thread takes what, hence the order of sums, does not depend on that.
#pragma once

#include "kernels/device/real.cuh"
#include "kernels/device/reduce.cuh"
#include "kernels/runtime/grid.h"

namespace kvcal::cuda {

constexpr int kPack = 8;

/// v[i] = row[first + i], i < n <= 8; zeros beyond. vectors: row + first lies at a multiple of 16 bytes when n is 8.
template <class T>
__device__ void read_pack(float (&v)[kPack], const T* row, int64_t first, int64_t n, bool vectors) {
  constexpr int kVector = 16 / sizeof(T);
  if (vectors && n >= kPack) {
#pragma unroll
    for (int i = 0; i < kPack; i += kVector) {
      const auto x = *reinterpret_cast<const Pack<T, kVector>*>(row + first + i);
#pragma unroll
      for (int j = 0; j < kVector; ++j) v[i + j] = widen(x.values[j]);
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i) v[i] = i < n ? widen(row[first + i]) : 0.0f;
}

/// The other way.
template <class T>
__device__ void write_pack(const float (&v)[kPack], T* row, int64_t first, int64_t n, bool vectors) {
  constexpr int kVector = 16 / sizeof(T);
  if (vectors && n >= kPack) {
#pragma unroll
    for (int i = 0; i < kPack; i += kVector) {
      Pack<T, kVector> x;
#pragma unroll
      for (int j = 0; j < kVector; ++j) x.values[j] = narrow<T>(v[i + j]);
      *reinterpret_cast<Pack<T, kVector>*>(row + first + i) = x;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kPack; ++i)
    if (i < n) row[first + i] = narrow<T>(v[i]);
}

/// f(first, n) for the packs of this thread of kRowThreads.
template <int kRowThreads, class F>
__device__ void each_pack(int64_t width, F f) {
  for (int64_t i = int64_t{threadIdx.x} * kPack; i < width; i += kRowThreads * kPack)
    f(i, width - i < kPack ? width - i : kPack);
}

template <int kRowThreads, class T>
__device__ float sum_of_squares(const T* row, int64_t width, bool vectors) {
  float sum = 0.0f;
  each_pack<kRowThreads>(width, [&](int64_t i, int64_t n) {
    float v[kPack];
    read_pack(v, row, i, n, vectors);
#pragma unroll
    for (int j = 0; j < kPack; ++j) sum += v[j] * v[j];
  });
  return row_reduce<kRowThreads>(sum, Sum());
}

/// 1 / sqrt(mean + eps)
__device__ inline float inverse_rms(float squares, int64_t width, float eps) {
  return 1.0f / sqrtf(squares / static_cast<float>(width) + eps);
}

/// A bf16 gain multiplies the rounded norm, an f32 gain the unrounded one.
template <class T, class G>
__device__ float with_gain(float normed, G gain) {
  return (sizeof(G) == sizeof(bf16) ? rounded_to<T>(normed) : normed) * widen(gain);
}

/// The pair (a, b) turned by an angle with this cosine and sine. Written with fmaf, so that every kernel rounds alike.
__device__ inline float turned_first(float a, float b, float cosine, float sine) {
  return fmaf(a, cosine, -(b * sine));
}
__device__ inline float turned_second(float a, float b, float cosine, float sine) { return fmaf(b, cosine, a * sine); }

/// Threads that share a row of this width.
constexpr int kHalfWarp = kWarp / 2, kRowBlock = 256;
constexpr int64_t kHalfWarpRow = kHalfWarp * kPack, kWarpRow = 1024;

/// Whether 16 bytes can be read at once from rows of `width` elements that begin there.
template <class... P>
bool rows_in_vectors(int64_t width, const P*... begin) {
  return width % kPack == 0 && ((reinterpret_cast<uintptr_t>(begin) % 16 == 0) && ...);
}

/// f<kRowThreads>(grid, block) for n_rows rows: dimension y of a block counts rows.
template <class F>
void with_row_threads(int64_t n_rows, int64_t width, F&& f) {
  const auto start = [&]<int kRowThreads>() {
    constexpr int kRows = kRowBlock / kRowThreads;
    f.template operator()<kRowThreads>(dim3(n_blocks(n_rows, kRows)), dim3(kRowThreads, kRows));
  };
  if (width <= kHalfWarpRow)
    start.template operator()<kHalfWarp>();
  else if (width <= kWarpRow)
    start.template operator()<kWarp>();
  else
    start.template operator()<kRowBlock>();
}

/// The row of a thread in such a block.
__device__ inline int64_t row_of_thread() { return int64_t{blockIdx.x} * blockDim.y + threadIdx.y; }

}  // namespace kvcal::cuda
