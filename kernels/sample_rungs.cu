// What decides which rungs sampled attention tries for a row: the largest magnitudes of its sequence up to the last key
// that it sees, and of its query, and how many values are small.
#include "kernels/device/sample_rows.cuh"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

constexpr int kPositions = 8;

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

/// The highest rung at which few of n values are subnormal.
template <class Value>
__device__ int alike_rung_of(int n, Value value) {
  int few = kNoneAlike, many = kMostRung + 1;
  while (many - few > 1) {
    const int rung = (few + many) / 2;
    const float least = scale_of(rung - kNormalExponent);
    int small = 0, nonzero = 0;
    for (int i = 0; i < n; ++i) {
      const float magnitude = fabsf(value(i));
      nonzero += magnitude > 0.0f ? 1 : 0;
      small += magnitude > 0.0f && magnitude < least ? 1 : 0;
    }
    (small * kFewSubnormal > nonzero ? many : few) = rung;
  }
  return few;
}

/// The highest at which it is so in each token and each channel of rows [from, to), at most kAlikeTokens. A thread
/// takes one of them; all threads of the block get the answer.
template <class T>
__device__ int alike_rung_of(const HeadRows<T>& rows, int64_t from, int64_t to) {
  const int n_tokens = static_cast<int>(to - from);
  int rung = kMostRung;
  for (int line = static_cast<int>(threadIdx.x); line < n_tokens + rows.width; line += kThreads)
    rung =
        min(rung, line < n_tokens ? alike_rung_of(rows.width, [&](int c) { return rows.at(from + line, c); })
                                  : alike_rung_of(n_tokens, [&](int t) { return rows.at(from + t, line - n_tokens); }));
  return -static_cast<int>(row_reduce<kThreads>(static_cast<float>(-rung), Maximum()));
}

/// Block (complete 64 tokens, key-value head, sequence).
template <class T>
__global__ void block_alike_kernel(SampleArrays a, SampleShape s) {
  const SampledSequence sequence = a.sequences[blockIdx.z];
  const int64_t from = int64_t{blockIdx.x} * kAlikeTokens, to = from + kAlikeTokens;
  if (to > sequence.n_tokens) return;
  const int64_t block = sequence.first_absmax / kAlikeTokens + blockIdx.x;
  int32_t* alike = a.block_alike + (block * s.n_kv_heads + blockIdx.y) * 2;
  const int keys = alike_rung_of(keys_of<T>(sequence, s), from, to),
            values = alike_rung_of(values_of<T>(sequence, s), from, to);
  if (threadIdx.x != 0) return;
  alike[0] = keys;
  alike[1] = values;
}

/// Block (sampled row, key-value head): the complete 64 tokens up to the last key that it sees, the last 64 of these,
/// and the queries of the group.
template <class T>
__global__ void row_alike_kernel(SampleArrays a, SampleShape s) {
  const SampledRow row = a.rows[blockIdx.x];
  const SampledSequence sequence = a.sequences[row.sequence];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t end = int64_t{row.last_key} + 1, from = end < kAlikeTokens ? 0 : end - kAlikeTokens;
  int alike[2] = {alike_rung_of(keys_of<T>(sequence, s), from, end),
                  alike_rung_of(values_of<T>(sequence, s), from, end)};
  for (int site = 0; site < 2; ++site) {
    float above = static_cast<float>(-kMostRung);  // of what is looked for the negative
    for (int64_t b = thread; b < end / kAlikeTokens; b += kThreads) {
      const int64_t block = sequence.first_absmax / kAlikeTokens + b;
      above = fmaxf(above, static_cast<float>(-a.block_alike[(block * s.n_kv_heads + blockIdx.y) * 2 + site]));
    }
    const int of_blocks = -static_cast<int>(row_reduce<kThreads>(above, Maximum()));
    if (thread == 0) a.alike[(int64_t{row.index} * s.n_kv_heads + blockIdx.y) * 2 + site] = min(alike[site], of_blocks);
  }
  const int64_t group = s.n_heads / s.n_kv_heads;
  for (int64_t head = blockIdx.y * group + thread / kWarp; head < (blockIdx.y + 1) * group; head += kThreads / kWarp) {
    const T* q = static_cast<const T*>(a.q) + (row.row * s.n_heads + head) * s.key_dim;
    float below = -INFINITY;  // the largest negative: of magnitudes the smallest
    for (int64_t c = thread % kWarp; c < s.key_dim; c += kWarp)
      if (const float magnitude = fabsf(widen(q[c])); magnitude > 0.0f) below = fmaxf(below, -magnitude);
    const uint32_t bits = __float_as_uint(-warp_reduce(below, Maximum()));
    const int normal = static_cast<int>(bits >> 23) - 127 + kNormalExponent;  // infinity where all are zeros
    if (thread % kWarp == 0)
      a.query_alike[int64_t{row.index} * s.n_heads + head] = min(max(normal, kNoneAlike), kMostRung);
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
    if (shape.format == SampleFormat::Int8) return;  // nothing is alike
    const unsigned heads = n_blocks(shape.n_kv_heads, 1);
    if (const int64_t blocks = shape.longest / kAlikeTokens; blocks > 0)
      launch(KVCAL_KERNEL(block_alike_kernel<T>), dim3(n_blocks(blocks, 1), heads, n_blocks(shape.n_sequences, 1)),
             dim3(kThreads), 0, stream, arrays, shape);
    launch(KVCAL_KERNEL(row_alike_kernel<T>), dim3(n_blocks(shape.n_rows, 1), heads), dim3(kThreads), 0, stream, arrays,
           shape);
  });
}

}  // namespace kvcal::cuda
