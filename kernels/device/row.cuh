// Rows of activations, read by a few threads together: each takes eight neighbours at a time, 16 bytes in one access
// where all rows consist of such parts. Which thread takes what, hence the order of sums, does not depend on that.
#pragma once

#include <string>

#include "base/error.h"
#include "kernels/device/real.cuh"
#include "kernels/device/reduce.cuh"
#include "kernels/runtime/grid.h"

namespace kvcal::cuda {

constexpr int kPack = 8;

/// Eight neighbours of a row from `first` on, of which n are there. kWhole: always all of them, and the first lies at a
/// multiple of 16 bytes, so that nothing has to be asked.
template <bool kWhole>
struct Part {
  int64_t first, n;
  __device__ bool has(int j) const { return kWhole || j < n; }
};

/// v[j] = row[first + j]; zeros beyond.
template <bool kWhole, class T>
__device__ void read_pack(float (&v)[kPack], const T* row, const Part<kWhole>& part) {
  constexpr int kVector = 16 / sizeof(T);
  if constexpr (kWhole) {
#pragma unroll
    for (int i = 0; i < kPack; i += kVector) {
      const auto x = *reinterpret_cast<const Pack<T, kVector>*>(row + part.first + i);
#pragma unroll
      for (int j = 0; j < kVector; ++j) v[i + j] = widen(x.values[j]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPack; ++i) v[i] = part.has(i) ? widen(row[part.first + i]) : 0.0f;
  }
}

/// The other way.
template <bool kWhole, class T>
__device__ void write_pack(const float (&v)[kPack], T* row, const Part<kWhole>& part) {
  constexpr int kVector = 16 / sizeof(T);
  if constexpr (kWhole) {
#pragma unroll
    for (int i = 0; i < kPack; i += kVector) {
      Pack<T, kVector> x;
#pragma unroll
      for (int j = 0; j < kVector; ++j) x.values[j] = narrow<T>(v[i + j]);
      *reinterpret_cast<Pack<T, kVector>*>(row + part.first + i) = x;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kPack; ++i)
      if (part.has(i)) row[part.first + i] = narrow<T>(v[i]);
  }
}

/// f(part) for the parts of this thread of kRowThreads.
template <int kRowThreads, bool kWhole, class F>
__device__ void each_pack(int64_t width, F f) {
  for (int64_t i = int64_t{threadIdx.x} * kPack; i < width; i += kRowThreads * kPack)
    f(Part<kWhole>{i, width - i < kPack ? width - i : kPack});
}

template <int kRowThreads, bool kWhole, class T>
__device__ float sum_of_squares(const T* row, int64_t width) {
  float sum = 0.0f;
  each_pack<kRowThreads, kWhole>(width, [&](const auto& part) {
    float v[kPack];
    read_pack(v, row, part);
#pragma unroll
    for (int j = 0; j < kPack; ++j) sum = fmaf(v[j], v[j], sum);
  });
  return row_reduce<kRowThreads>(sum, Sum());
}

/// Mean of a row, and the sum of squared distances from it.
struct Moments {
  float mean, squares;
};
template <int kRowThreads, bool kWhole, class T>
__device__ Moments moments(const T* row, int64_t width) {
  float sum = 0.0f, squares = 0.0f;
  each_pack<kRowThreads, kWhole>(width, [&](const auto& part) {
    float v[kPack];
    read_pack(v, row, part);
    for (const float e : v) sum += e;
  });
  const float mean = row_reduce<kRowThreads>(sum, Sum()) / static_cast<float>(width);
  each_pack<kRowThreads, kWhole>(width, [&](const auto& part) {
    float v[kPack];
    read_pack(v, row, part);
#pragma unroll
    for (int j = 0; j < kPack; ++j)
      if (part.has(j)) squares = fmaf(v[j] - mean, v[j] - mean, squares);
  });
  return {mean, row_reduce<kRowThreads>(squares, Sum())};
}

/// 1 / sqrt(mean + eps)
__device__ inline float inverse_rms(float squares, int64_t width, float eps) {
  return 1.0f / sqrtf(squares / static_cast<float>(width) + eps);
}

/// A bf16 gain multiplies the rounded norm, an f32 gain the unrounded one.
template <class T, class G>
__device__ float with_gain(float normed, float gain) {
  return (sizeof(G) == sizeof(bf16) ? rounded_to<T>(normed) : normed) * gain;
}

/// The pair (a, b) turned by an angle with this cosine and sine. Written with fmaf, so that every kernel rounds alike.
__device__ inline float turned_first(float a, float b, float cosine, float sine) {
  return fmaf(a, cosine, -(b * sine));
}
__device__ inline float turned_second(float a, float b, float cosine, float sine) { return fmaf(b, cosine, a * sine); }

constexpr int kRowBlock = 256;

/// Whether rows of `width` elements that begin there consist of whole parts. A null pointer is no obstacle.
template <class... P>
bool whole_parts(int64_t width, const P*... begin) {
  return width % kPack == 0 && ((reinterpret_cast<uintptr_t>(begin) % 16 == 0) && ...);
}

/// f<kRowThreads, kWhole>(grid, block) for n_rows rows: dimension y of a block counts rows.
template <int kRowThreads, class F>
void with_rows(int64_t n_rows, bool whole, F&& f) {
  constexpr int64_t kMostRows = int64_t{1} << 31;  // a row's number may be divided in 32 bits
  constexpr int kRows = kRowBlock / kRowThreads;
  if (n_rows >= kMostRows) fail("a kernel over " + std::to_string(n_rows) + " rows; it counts fewer than 2^31");
  const dim3 grid(n_blocks(n_rows, kRows)), block(kRowThreads, kRows);
  if (whole)
    f.template operator()<kRowThreads, true>(grid, block);
  else
    f.template operator()<kRowThreads, false>(grid, block);
}

/// As many threads a row as its width needs. A short one gives each thread two parts, so that the pairs of a rotated
/// head occupy them all.
template <class F>
void with_row_threads(int64_t n_rows, int64_t width, bool whole, F&& f) {
  if (width <= 128)
    with_rows<kWarp / 4>(n_rows, whole, f);
  else if (width <= 256)
    with_rows<kWarp / 2>(n_rows, whole, f);
  else if (width <= 1024)
    with_rows<kWarp>(n_rows, whole, f);
  else
    with_rows<kRowBlock>(n_rows, whole, f);
}

/// The row of a thread in such a block.
__device__ inline int64_t row_of_thread() { return int64_t{blockIdx.x} * blockDim.y + threadIdx.y; }

}  // namespace kvcal::cuda
