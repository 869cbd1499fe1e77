// Rows of a KV cache as they are stored and read back (ops/cache_rounding.h). A few threads take a head's row; of
// blocks with scales of their own, a thread each. Memory bounds it: a row is read and written once (dynamic: read
// twice).
#include "kernels/device/row.cuh"
#include "kernels/device/small_floats.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

struct Rounded {
  CacheFormat format;
  __device__ float operator()(float x) const {
    switch (format) {
      case CacheFormat::E4m3:
      case CacheFormat::IndexKey:
        return rounded_to_e4m3(x);
      case CacheFormat::E4m3Fnuz:
        return rounded_to_e4m3fnuz(x);
      case CacheFormat::E5m2:
        return rounded_to_e5m2(x);
      case CacheFormat::Int8:
        return rounded_to_int8(x);
      case CacheFormat::Nvfp4:
        return rounded_to_e2m1(x);
      case CacheFormat::Uint4:
      case CacheFormat::RotatedInt4:
        break;  // four_bit_rows.cu
    }
    return x;
  }
};

/// The least power of two that is not below x, a normal number.
__device__ float power_of_two_from(float x) { return __uint_as_float((__float_as_uint(x) + 0x7FFFFFu) & 0x7F800000u); }

template <class T, int kRowThreads, bool kWhole>
__global__ void round_cache_kernel(const T* __restrict__ x, T* __restrict__ y, CacheScales scales, CacheRows rows,
                                   CacheFormat format, float largest) {
  const int64_t row = row_of_thread(), width = rows.width;
  if (row >= rows.count) return;
  const Rounded rounded{format};
  const int64_t head = row % rows.heads;
  const int64_t first = scales.n == 1 ? 0 : scales.n == rows.heads ? head : head * width, step = scales.n > rows.heads;
  float scale = 1.0f;
  if (!scales.write) {
    float absmax = 0.0f;
    each_pack<kRowThreads, kWhole>(width, [&](const auto& part) {
      float v[kPack];
      read_pack(v, x + row * width, part);
#pragma unroll
      for (int j = 0; j < kPack; ++j) absmax = fmaxf(absmax, fabsf(v[j]));
    });
    absmax = row_reduce<kRowThreads>(absmax, Maximum());
    if (format == CacheFormat::IndexKey)
      scale = power_of_two_from(fmaxf(absmax, kLeastIndexKey) / largest);
    else if (absmax > 0.0f)
      scale = absmax / largest;
  }
  each_pack<kRowThreads, kWhole>(width, [&](const auto& part) {
    float v[kPack];
    read_pack(v, x + row * width, part);
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      if (!part.has(j)) continue;
      const int64_t at = first + step * (part.first + j);
      v[j] = rounded(v[j] / (scales.write ? scales.write[at] : scale)) * (scales.write ? scales.read[at] : scale);
    }
    write_pack(v, y + row * width, part);
  });
}

template <class T>
__global__ void round_blocks_kernel(const T* __restrict__ x, T* __restrict__ y, CacheScales scales, int64_t n_blocks,
                                    float largest) {
  const int64_t block = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (block >= n_blocks) return;
  float v[kNvfp4Block], absmax = 0.0f;
#pragma unroll
  for (int j = 0; j < kNvfp4Block; ++j) {
    v[j] = widen(x[block * kNvfp4Block + j]);
    absmax = fmaxf(absmax, fabsf(v[j]));
  }
  const float of_block = rounded_to_e4m3(absmax / largest / *scales.write);
  const float write = *scales.write * of_block, read = *scales.read * of_block;
#pragma unroll
  for (int j = 0; j < kNvfp4Block; ++j)
    y[block * kNvfp4Block + j] = narrow<T>(write == 0.0f ? 0.0f : rounded_to_e2m1(v[j] / write) * read);
}

}  // namespace

void round_cache(DType t, const void* x, CacheFormat format, const CacheScales& scales, void* y, const CacheRows& rows,
                 cudaStream_t stream) {
  constexpr int kThreads = 256;
  if (rows.width == 0 || rows.count == 0) return;
  const bool whole = whole_parts(rows.width, x, y);
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    const auto* from = static_cast<const T*>(x);
    auto* to = static_cast<T*>(y);
    if (format == CacheFormat::Nvfp4) {
      const int64_t n = rows.count * rows.width / kNvfp4Block;
      launch(KVCAL_KERNEL(round_blocks_kernel<T>), dim3(n_blocks(n, kThreads)), dim3(kThreads), 0, stream, from, to,
             scales, n, largest_of(format));
      return;
    }
    with_row_threads(rows.count, rows.width, whole,
                     [&]<int kRowThreads, bool kWhole>(const dim3& grid, const dim3& block) {
                       launch(KVCAL_KERNEL(round_cache_kernel<T, kRowThreads, kWhole>), grid, block, 0, stream, from,
                              to, scales, rows, format, largest_of(format));
                     });
  });
}

}  // namespace kvcal::cuda
