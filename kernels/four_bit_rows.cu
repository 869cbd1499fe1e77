// Rows of a KV cache in four bits, with a scale of their own (ops/cache_rounding.h). A warp takes a head's row into
// shared memory, where it is turned and turned back. Every step is that of the processor: equal bytes.
#include "kernels/device/row.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/rotation_signs.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

constexpr int kRowsOfBlock = 4;

/// x [rows, width], a multiple of `together`.
struct FourBitRows {
  int64_t n, width, together;
  float largest_code, least_step;
};

__device__ float four_bit_code(float x, const FourBitRows& rows) {
  return fminf(fmaxf(floorf(x + 0.5f), 0.0f), rows.largest_code);
}

struct RowRange {
  float least, most, step;
};

/// Each thread reads what it has written.
__device__ RowRange range_of(const float* row, const FourBitRows& rows) {
  const float infinity = __uint_as_float(0x7F800000u);
  float below = -infinity, most = -infinity;
  for (int64_t i = threadIdx.x; i < rows.width; i += kWarp) {
    below = fmaxf(below, -row[i]);
    most = fmaxf(most, row[i]);
  }
  const float least = -warp_reduce(below, Maximum());
  most = warp_reduce(most, Maximum());
  return {least, most, fmaxf((most - least) / rows.largest_code, rows.least_step)};
}

__device__ float with_sign(float x, int64_t i, const RotationSigns& signs) {
  return signs.kept[i / 64] >> (i % 64) & 1 ? x : -x;
}

/// Each part of `together` channels times a matrix of ones and minus ones.
__device__ void hadamard(float* row, const FourBitRows& rows) {
  for (int64_t apart = 1; apart < rows.together; apart *= 2) {
    __syncwarp();
    for (int64_t pair = threadIdx.x; pair < rows.width / 2; pair += kWarp) {
      const int64_t i = pair / apart * 2 * apart + pair % apart;
      const float a = row[i], b = row[i + apart];
      row[i] = a + b;
      row[i + apart] = a - b;
    }
  }
  __syncwarp();
}

template <class T>
__global__ void round_uint4_kernel(const T* __restrict__ x, T* __restrict__ y, FourBitRows rows) {
  const int64_t r = row_of_thread();
  if (r >= rows.n) return;
  float* row = dynamic_shared<float>() + threadIdx.y * rows.width;
  for (int64_t i = threadIdx.x; i < rows.width; i += kWarp) row[i] = widen(x[r * rows.width + i]);
  const RowRange range = range_of(row, rows);
  const float step = rounded_to_f16(range.step), least = rounded_to_f16(range.least);
  for (int64_t i = threadIdx.x; i < rows.width; i += kWarp)
    y[r * rows.width + i] = narrow<T>(four_bit_code((row[i] - range.least) / range.step, rows) * step + least);
}

template <class T>
__global__ void round_rotated_int4_kernel(const T* __restrict__ x, T* __restrict__ y, FourBitRows rows,
                                          const __grid_constant__ RotationSigns signs) {
  const int64_t r = row_of_thread();
  if (r >= rows.n) return;
  float* row = dynamic_shared<float>() + threadIdx.y * rows.width;
  for (int64_t i = threadIdx.x; i < rows.width; i += kWarp)
    row[i] = with_sign(widen(x[r * rows.width + i]), i % rows.together, signs);
  hadamard(row, rows);
  for (int64_t i = threadIdx.x; i < rows.width; i += kWarp) row[i] = rounded_to<T>(row[i]);
  const RowRange range = range_of(row, rows);
  const float zero = four_bit_code(-range.least / range.step, rows), inverse = 1.0f / range.step;
  const float step = __uint_as_float(__float_as_uint(range.step) & ~15u);
  for (int64_t i = threadIdx.x; i < rows.width; i += kWarp)
    row[i] = (four_bit_code(row[i] * inverse + zero, rows) - zero) * step;
  hadamard(row, rows);
  for (int64_t i = threadIdx.x; i < rows.width; i += kWarp)
    y[r * rows.width + i] = narrow<T>(with_sign(row[i] / static_cast<float>(rows.together), i % rows.together, signs));
}

}  // namespace

void round_in_four_bits(DType t, const void* x, CacheFormat format, void* y, const CacheRows& rows,
                        cudaStream_t stream) {
  if (rows.width == 0 || rows.count == 0) return;
  const bool turned = format == CacheFormat::RotatedInt4;
  const FourBitRows of{rows.count, rows.width, rotated_together(rows.width), largest_of(format),
                       turned ? kLeastInt4Step : kLeastUint4Step};
  const dim3 grid(n_blocks(rows.count, kRowsOfBlock)), block(kWarp, kRowsOfBlock);
  const size_t shared = kRowsOfBlock * static_cast<size_t>(rows.width) * sizeof(float);
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    const auto* from = static_cast<const T*>(x);
    auto* to = static_cast<T*>(y);
    if (turned)
      launch(KVCAL_KERNEL(round_rotated_int4_kernel<T>), grid, block, shared, stream, from, to, of, kRotationSigns);
    else
      launch(KVCAL_KERNEL(round_uint4_kernel<T>), grid, block, shared, stream, from, to, of);
  });
}

}  // namespace kvcal::cuda
