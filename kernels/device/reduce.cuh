// Sums and maxima over a warp or a block, in a fixed tree: equal inputs give equal bytes.
#pragma once

#include <cuda_runtime.h>

#include "kernels/device/shared.cuh"

namespace kvcal::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = ~0u;

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Maximum {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// The thread's warp, or its part of it.
template <int kLanes>
__device__ unsigned neighbouring_lanes() {
  static_assert(kWarp % kLanes == 0);
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  return (kAllLanes >> (kWarp - kLanes)) << (thread & unsigned{kWarp - kLanes});
}

/// Over kLanes neighbouring lanes of the warp, all of which must be here; every one gets the result.
template <int kLanes = kWarp, class F>
__device__ float warp_reduce(float x, F f) {
  const unsigned mask = neighbouring_lanes<kLanes>();
  for (int lanes = kLanes / 2; lanes > 0; lanes /= 2) x = f(x, __shfl_xor_sync(mask, x, lanes));
  return x;
}

/// Over kThreads threads in dimension x: part of a warp, a warp, or the whole block, all of which must be here; every
/// thread gets the result.
template <int kThreads, class F>
__device__ float row_reduce(float x, F f) {
  if constexpr (kThreads <= kWarp) {
    return warp_reduce<kThreads>(x, f);
  } else {
    static_assert(kThreads % kWarp == 0);
    x = warp_reduce(x, f);
    KVCAL_SHARED(float, part, kThreads / kWarp);
    __syncthreads();  // a call before this one may still be reading
    if (threadIdx.x % kWarp == 0) part[threadIdx.x / kWarp] = x;
    __syncthreads();
    x = part[0];
    for (int w = 1; w < kThreads / kWarp; ++w) x = f(x, part[w]);
    return x;
  }
}

}  // namespace kvcal::cuda
