// The rungs that sampled attention tries for a row: from the largest magnitudes of its sequence up to the last key that
// it sees, and of its query.
#include "kernels/device/real.cuh"
#include "kernels/device/reduce.cuh"
#include "kernels/device/rung.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

constexpr int kThreads = 256, kPositions = 8;

/// absmax[position] of rows of n elements; a warp per position.
template <class T>
__global__ void row_absmax_kernel(const SampledSequence* __restrict__ sequences, float* __restrict__ absmax, int64_t n,
                                  bool of_values) {
  const SampledSequence sequence = sequences[blockIdx.y];
  const int64_t position = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  if (position >= sequence.n_tokens) return;
  const T* x = static_cast<const T*>(of_values ? sequence.value : sequence.key) + position * n;
  float top = 0.0f;
  for (int64_t i = threadIdx.x; i < n; i += kWarp) top = fmaxf(top, fabsf(widen(x[i])));
  top = warp_reduce(top, Maximum());
  if (threadIdx.x == 0) absmax[sequence.first_absmax + position] = top;
}

__device__ inline int lowest_rung_of(float absmax, SampleFormat format) {
  const float most = format == SampleFormat::E4m3 ? kMostE4m3 : 127.0f;
  int rung = kLeastRung;
  while (rung < kMostRung && absmax > most * scale_of(rung)) ++rung;
  return rung;
}

/// A block per sampled row: the lowest rungs for everything up to its last key, and for its query.
template <class T>
__global__ void sample_rungs_kernel(SampleArrays a, SampleShape s) {
  const SampledRow row = a.rows[blockIdx.x];
  const int64_t first = a.sequences[row.sequence].first_absmax, width = s.n_heads * s.key_dim;
  float top[3] = {};
  for (int64_t i = threadIdx.x; i <= row.last_key; i += kThreads) {
    top[0] = fmaxf(top[0], a.key_absmax[first + i]);
    top[1] = fmaxf(top[1], a.value_absmax[first + i]);
  }
  const T* q = static_cast<const T*>(a.q) + row.row * width;
  for (int64_t i = threadIdx.x; i < width && s.n_rungs == 3; i += kThreads) top[2] = fmaxf(top[2], fabsf(widen(q[i])));
  for (int i = 0; i < s.n_rungs; ++i) {
    const float largest = row_reduce<kThreads>(top[i], Maximum());
    if (threadIdx.x == 0) a.rungs[int64_t{row.index} * s.n_rungs + i] = lowest_rung_of(largest, s.format);
  }
}

template <class T>
void row_absmax(const SampleArrays& a, const SampleShape& s, float* to, bool of_values, cudaStream_t stream) {
  launch(KVCAL_KERNEL(row_absmax_kernel<T>), dim3(n_blocks(s.longest, kPositions), n_blocks(s.n_sequences, 1)),
         dim3(kWarp, kPositions), 0, stream, a.sequences, to, s.n_kv_heads * (of_values ? s.value_dim : s.key_dim),
         of_values);
}

}  // namespace

void sample_rungs(DType t, const SampleArrays& arrays, const SampleShape& shape, cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    row_absmax<T>(arrays, shape, arrays.key_absmax, false, stream);
    if (arrays.value_absmax != arrays.key_absmax) row_absmax<T>(arrays, shape, arrays.value_absmax, true, stream);
    launch(KVCAL_KERNEL(sample_rungs_kernel<T>), dim3(n_blocks(shape.n_rows, 1)), dim3(kThreads), 0, stream, arrays,
           shape);
  });
}

}  // namespace kvcal::cuda
