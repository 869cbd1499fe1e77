// Products that the library refuses (extents or addresses off its grid of 16 bytes), and the checks of its algorithms.
#include <algorithm>

#include "kernels/device/row.cuh"
#include "kernels/gemm_kernels.h"
#include "kernels/runtime/launch.h"

namespace kvcal::cuda {
namespace {

constexpr int kTile = 16, kThreads = 256, kPerThread = 16;

/// Either type of bias, or none.
struct Bias {
  const float* f32;
  const bf16* narrow;
  __device__ float operator[](int64_t i) const { return f32 ? f32[i] : narrow ? widen(narrow[i]) : 0.0f; }
};

struct Extents {
  int64_t rows, in, out, out_tiles;
};

/// A block makes 16 x 16 values of y from strips of 16 columns of x and w. The tiles of y are counted in one dimension
/// of the grid: the others end at 65,535.
template <class T, class Y>
__global__ void simple_product_kernel(const T* __restrict__ x, const T* __restrict__ w, Bias bias, Y* __restrict__ y,
                                      Extents e) {
  KVCAL_SHARED(float, left, kTile*(kTile + 1));
  KVCAL_SHARED(float, right, kTile*(kTile + 1));
  const int across = threadIdx.x % kTile, down = threadIdx.x / kTile;
  const int64_t row = blockIdx.x / e.out_tiles * kTile + down, first_out = blockIdx.x % e.out_tiles * kTile;
  float sum = 0.0f;
  for (int64_t k = 0; k < e.in; k += kTile) {
    const bool inside = k + across < e.in;
    __syncthreads();  // the strip before is no longer read
    left[down * (kTile + 1) + across] = inside && row < e.rows ? widen(x[row * e.in + k + across]) : 0.0f;
    right[down * (kTile + 1) + across] =
        inside && first_out + down < e.out ? widen(w[(first_out + down) * e.in + k + across]) : 0.0f;
    __syncthreads();
    const int n = static_cast<int>(e.in - k < kTile ? e.in - k : kTile);
    for (int i = 0; i < n; ++i) sum = fmaf(left[down * (kTile + 1) + i], right[across * (kTile + 1) + i], sum);
  }
  const int64_t o = first_out + across;
  if (row < e.rows && o < e.out) y[row * e.out + o] = narrow<Y>(sum + bias[o]);
}

/// Few columns of y: some threads a row of x, which is read again for each.
template <class T, class Y, int kRowThreads, bool kWhole>
__global__ void few_columns_kernel(const T* __restrict__ x, const T* __restrict__ w, Bias bias, Y* __restrict__ y,
                                   Extents e) {
  const int64_t row = row_of_thread();
  if (row >= e.rows) return;
  for (int64_t o = 0; o < e.out; ++o) {
    float sum = 0.0f;
    each_pack<kRowThreads, kWhole>(e.in, [&](const auto& part) {
      float v[kPack], weight[kPack];
      read_pack(v, x + row * e.in, part);
      read_pack(weight, w + o * e.in, part);
#pragma unroll
      for (int j = 0; j < kPack; ++j) sum = fmaf(v[j], weight[j], sum);
    });
    sum = row_reduce<kRowThreads>(sum, Sum());
    if (threadIdx.x == 0) y[row * e.out + o] = narrow<Y>(sum + bias[o]);
  }
}

__global__ void round_values_kernel(const float* __restrict__ from, bf16* __restrict__ to, int64_t n) {
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += int64_t{gridDim.x} * kThreads)
    to[i] = narrow<bf16>(from[i]);
}

__global__ void widen_values_kernel(const bf16* __restrict__ from, float* __restrict__ to, int64_t n) {
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += int64_t{gridDim.x} * kThreads)
    to[i] = widen(from[i]);
}

/// A bijection of 64 bits that leaves no pattern (splitmix64's), so that one changed unit always changes the sum.
__device__ unsigned long long scrambled(unsigned long long z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

/// Units of 16 bits: every tensor has a whole number of them.
__global__ void add_checksum_kernel(const uint16_t* __restrict__ units, int64_t n, unsigned long long* sum) {
  unsigned long long part = 0;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += int64_t{gridDim.x} * kThreads)
    part += scrambled((static_cast<unsigned long long>(i + 1) << 16) | units[i]);
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2) part += __shfl_xor_sync(kAllLanes, part, lanes);
  if (threadIdx.x % kWarp == 0) atomicAdd(sum, part);
}

template <class T, class Y>
void simple(const Tensor& x, const Tensor& w, const Bias& bias, const Tensor& y, cudaStream_t stream) {
  constexpr int64_t kFewColumns = 4;  // more are cheaper in tiles
  const Extents e{x.dim(0), x.dim(1), w.dim(0), n_blocks(w.dim(0), kTile)};
  const auto *from = static_cast<const T*>(x.data), *weight = static_cast<const T*>(w.data);
  auto* to = static_cast<Y*>(y.data);
  if (e.out <= kFewColumns)
    with_row_threads(e.rows, e.in, whole_parts(e.in, from, weight),
                     [&]<int kRowThreads, bool kWhole>(const dim3& grid, const dim3& block) {
                       launch(KVCAL_KERNEL(few_columns_kernel<T, Y, kRowThreads, kWhole>), grid, block, 0, stream, from,
                              weight, bias, to, e);
                     });
  else
    launch(KVCAL_KERNEL(simple_product_kernel<T, Y>), dim3(n_blocks(n_blocks(e.rows, kTile) * e.out_tiles, 1)),
           dim3(kTile * kTile), 0, stream, from, weight, bias, to, e);
}

}  // namespace

void simple_product(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y, cudaStream_t stream) {
  Bias b{};
  if (bias && bias.dtype == DType::BF16)
    b.narrow = static_cast<const bf16*>(bias.data);
  else
    b.f32 = static_cast<const float*>(bias.data);
  if (x.dtype == DType::F32)
    simple<float, float>(x, w, b, y, stream);
  else if (y.dtype == DType::F32)
    simple<bf16, float>(x, w, b, y, stream);
  else
    simple<bf16, bf16>(x, w, b, y, stream);
}

void round_values(const float* from, bf16* to, int64_t n, cudaStream_t stream) {
  launch(KVCAL_KERNEL(round_values_kernel), dim3(n_blocks(n, kThreads * kPerThread)), dim3(kThreads), 0, stream, from,
         to, n);
}

void widen_values(const bf16* from, float* to, int64_t n, cudaStream_t stream) {
  launch(KVCAL_KERNEL(widen_values_kernel), dim3(n_blocks(n, kThreads * kPerThread)), dim3(kThreads), 0, stream, from,
         to, n);
}

void add_checksum(const Tensor& t, unsigned long long* sum, cudaStream_t stream) {
  const auto n = static_cast<int64_t>(t.bytes() / sizeof(uint16_t));
  constexpr int64_t kMostBlocks = 4096;  // few enough atomic additions
  launch(KVCAL_KERNEL(add_checksum_kernel),
         dim3(n_blocks(n, std::max<int64_t>(kThreads * kPerThread, n / kMostBlocks))), dim3(kThreads), 0, stream,
         static_cast<const uint16_t*>(t.data), n, sum);
}

}  // namespace kvcal::cuda
