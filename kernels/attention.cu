// Causal softmax attention, a block of 64 keys at absolute positions at a time, with a running maximum and sum per
// query row (online softmax).
//
// Two kernels. tile_attention_kernel: bf16 on tensor cores, 64 query positions of one head a block, after
// FlashAttention-2 (Dao 2023): each warp has 16 rows, whose probabilities go from the registers of q kᵀ into p v.
// row_attention_kernel: a warp per query row; f32, and head dimensions that no tile is built for. In both a row meets
// the same key blocks in the same order whatever else is in the call: a block in which it sees nothing changes nothing.
#include "kernels/device/key_tile.cuh"
#include "kernels/device/real.cuh"
#include "kernels/device/reduce.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

/// The first key that a query at this position sees.
__device__ int64_t first_key(int64_t query, const AttentionShape& s) {
  const int64_t windowed = s.window > 0 && query >= s.window ? query - s.window + 1 : 0;
  const int64_t chunk = s.chunk > 0 ? query / s.chunk * s.chunk : 0;
  return windowed > chunk ? windowed : chunk;
}

/// The last one: its own, unless it sees to the end of a block. Of a position behind the span: whatever is no row.
__device__ int64_t last_key(int64_t query, const AttentionSpan& span, const AttentionShape& s) {
  const int64_t token = query - span.first_position;
  return s.last_keys && token < span.n_tokens ? s.last_keys[span.row + token] : query;
}

/// The first key block of which it sees something.
__device__ int64_t first_block(int64_t query, const AttentionShape& s) { return first_key(query, s) / kKeys * kKeys; }

/// A logit from a product.
__device__ float logit_of(float dot, const AttentionShape& s) {
  const float x = dot * s.scale;
  return s.softcap > 0.0f ? s.softcap * tanhf(x / s.softcap) : x;
}

/// exp(x - maximum); nothing for what is not visible, also where the maximum is that of nothing yet. NaN stays NaN.
__device__ float probability(float x, float maximum) { return x == -INFINITY ? 0.0f : expf(x - maximum); }

// ---------------------------------------------------------------- a warp per row

/// Block: kWarps rows (tokens) of one head; per warp in shared memory the query, 64 probabilities and the output.
template <class T>
__global__ void row_attention_kernel(const T* __restrict__ q, T* __restrict__ y,
                                     const AttentionSpan* __restrict__ spans, AttentionShape s) {
  const AttentionSpan span = spans[blockIdx.z];
  const int64_t token = int64_t{blockIdx.x} * kWarps + threadIdx.y, head = blockIdx.y;
  if (token >= span.n_tokens) return;
  const int lane = static_cast<int>(threadIdx.x);
  float* query = dynamic_shared<float>() + threadIdx.y * (s.key_dim + kKeys + s.value_dim);
  float *p = query + s.key_dim, *out = p + kKeys;
  const int64_t row = (span.row + token) * s.n_heads + head, position = span.first_position + token;
  const int64_t kv_head = head / (s.n_heads / s.n_kv_heads);
  for (int64_t d = lane; d < s.key_dim; d += kWarp) query[d] = widen(q[row * s.key_dim + d]);
  for (int64_t c = lane; c < s.value_dim; c += kWarp) out[c] = 0.0f;
  __syncwarp();

  // A sink is a first key without a value.
  float maximum = s.sinks ? s.sinks[head] : -INFINITY, total = s.sinks ? 1.0f : 0.0f;
  const int64_t first = first_key(position, s), last = last_key(position, span, s);
  const uint64_t* const picked = s.picked.words ? s.picked.row(span.row + token, head) : nullptr;
  for (int64_t key0 = first_block(position, s); key0 <= last; key0 += kKeys) {
    const uint64_t seen = seen_keys(first - key0, last - key0, picked, key0 / kKeys);
    if (seen == 0) continue;
    float logit[kKeys / kWarp], top = maximum, sum = 0.0f;
    for (int i = 0; i < kKeys / kWarp; ++i) {
      const int64_t j = key0 + lane + i * kWarp;
      logit[i] = -INFINITY;
      if ((seen >> (j - key0) & 1) == 0) continue;
      const T* key = static_cast<const T*>(span.key) + (j * s.n_kv_heads + kv_head) * s.key_dim;
      float dot = 0.0f;
      for (int64_t d = 0; d < s.key_dim; ++d) dot += query[d] * widen(key[d]);
      logit[i] = logit_of(dot, s);
      top = fmaxf(top, logit[i]);
    }
    top = warp_reduce(top, Maximum());
    for (int i = 0; i < kKeys / kWarp; ++i) {
      const float x = probability(logit[i], top);
      sum += x;
      p[lane + i * kWarp] = rounded_to<T>(x);
    }
    __syncwarp();  // p is there
    const float correction = probability(maximum, top);
    total = total * correction + warp_reduce(sum, Sum());
    maximum = top;
    const int64_t behind = last - key0 < kKeys - 1 ? last - key0 : kKeys - 1;
    for (int64_t c = lane; c < s.value_dim; c += kWarp) {
      const T* value = static_cast<const T*>(span.value) + (key0 * s.n_kv_heads + kv_head) * s.value_dim + c;
      float x = out[c] * correction;
      for (int64_t j = 0; j <= behind; ++j) x += p[j] * widen(value[j * s.n_kv_heads * s.value_dim]);
      out[c] = x;
    }
    __syncwarp();  // p is written again
  }
  for (int64_t c = lane; c < s.value_dim; c += kWarp) y[row * s.value_dim + c] = narrow<T>(out[c] / total);
}

// ---------------------------------------------------------------- tiles on tensor cores

/// What a thread knows of its rows g and g + 8 of a warp's 16 (g = lane / 4). Logits are those of powers of two here:
/// the unit of `maximum` is ln 2.
struct RowPair {
  float maximum[2] = {-INFINITY, -INFINITY}, total[2] = {0.0f, 0.0f};
  int first[2] = {}, last[2] = {};  // keys that they see
  const uint64_t* picked[2] = {};   // and of those; null: all
};
constexpr float kLog2E = 1.44269504f;

/// Products -> logits, of a row's two of each eight columns.
__device__ inline void scale_logits(float (&x)[kKeys / 8][4], int half, const AttentionShape& s) {
  if (s.softcap > 0.0f) {
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
      for (int i = 2 * half; i < 2 * half + 2; ++i) x[n][i] = logit_of(x[n][i], s) * kLog2E;
    return;
  }
  const float factor = s.scale * kLog2E;
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n)
    for (int i = 2 * half; i < 2 * half + 2; ++i) x[n][i] *= factor;
}

/// logits -> probabilities against the new maximum; correction: what the output so far is worth under it.
__device__ inline void softmax_rows(float (&x)[kKeys / 8][4], RowPair& rows, float (&correction)[2], int key0,
                                    const AttentionShape& s) {
  const int pair = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    scale_logits(x, half, s);
    const int first = rows.first[half] - key0, last = rows.last[half] - key0;
    if (first > 0 || last < kKeys - 1 || rows.picked[half]) {  // most blocks are seen whole
      const uint64_t seen = seen_keys(first, last, rows.picked[half], key0 / kKeys) >> pair;
#pragma unroll
      for (int n = 0; n < kKeys / 8; ++n)
        for (int i = 2 * half; i < 2 * half + 2; ++i)
          if ((seen >> (n * 8 + i % 2) & 1) == 0) x[n][i] = -INFINITY;
    }
    float top = rows.maximum[half], sum = 0.0f;
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n) top = fmaxf(top, fmaxf(x[n][2 * half], x[n][2 * half + 1]));
    for (int lanes = 1; lanes < 4; lanes *= 2) top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, lanes));
    const float base = top == -INFINITY ? 0.0f : top;  // of nothing yet
#pragma unroll
    for (int n = 0; n < kKeys / 8; ++n)
      for (int i = 2 * half; i < 2 * half + 2; ++i) sum += x[n][i] = exp2_approximate(x[n][i] - base);
    for (int lanes = 1; lanes < 4; lanes *= 2) sum += __shfl_xor_sync(kAllLanes, sum, lanes);
    correction[half] = exp2_approximate(rows.maximum[half] - base);
    rows.total[half] = rows.total[half] * correction[half] + sum;
    rows.maximum[half] = top;
  }
}

template <int kDim>
__device__ void multiply_values(float (&out)[kDim / 8][4], const float (&p)[kKeys / 8][4], const bf16* values) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  constexpr int kStride = kDim + kSkew;
  const bf16* value = values + lane % 16 * kStride + lane / 16 * 8;
#pragma unroll
  for (int j = 0; j < kKeys / 16; ++j) {
    const uint32_t a[4] = {narrow_pair(p[2 * j][0], p[2 * j][1]), narrow_pair(p[2 * j][2], p[2 * j][3]),
                           narrow_pair(p[2 * j + 1][0], p[2 * j + 1][1]),
                           narrow_pair(p[2 * j + 1][2], p[2 * j + 1][3])};
#pragma unroll
    for (int n = 0; n < kDim / 8; n += 2) {
      uint32_t b[4];
      load_matrices_transposed(b, value + j * 16 * kStride + n * 8);
      multiply_add(out[n], a, {b[0], b[1]});
      multiply_add(out[n + 1], a, {b[2], b[3]});
    }
  }
}

/// Block (tile of query positions, head and slice of kValueDim value columns, span). Keys of the next block load while
/// this one's values are multiplied.
template <int kKeyDim, int kValueDim>
__global__ void __launch_bounds__(kWarps* kWarp)
    tile_attention_kernel(const bf16* __restrict__ q, bf16* __restrict__ y, const AttentionSpan* __restrict__ spans,
                          AttentionShape s) {
  const AttentionSpan span = spans[blockIdx.z];
  const int64_t slices = (s.value_dim + kValueDim - 1) / kValueDim;
  const int64_t token0 = int64_t{blockIdx.x} * kRows, head = blockIdx.y / slices;
  const int64_t value0 = blockIdx.y % slices * kValueDim, kv_head = head / (s.n_heads / s.n_kv_heads);
  if (token0 >= span.n_tokens) return;
  bf16* queries = dynamic_shared<bf16>();
  bf16 *keys = queries + kRows * (kKeyDim + kSkew), *values = keys + kKeys * (kKeyDim + kSkew);
  const int64_t n_keys = span.first_position + span.n_tokens, position0 = span.first_position + token0;
  const int64_t last_query = position0 + kRows - 1 < n_keys - 1 ? position0 + kRows - 1 : n_keys - 1;
  const int64_t last = last_key(last_query, span, s);
  const auto load_keys = [&](int64_t key0) {
    load_tile<kKeyDim>(keys, static_cast<const bf16*>(span.key) + kv_head * s.key_dim, key0, n_keys,
                       s.n_kv_heads * s.key_dim, static_cast<int>(s.key_dim));
    commit_copies();
  };
  const auto load_values = [&](int64_t key0) {
    load_tile<kValueDim>(values, static_cast<const bf16*>(span.value) + kv_head * s.value_dim + value0, key0, n_keys,
                         s.n_kv_heads * s.value_dim, static_cast<int>(s.value_dim - value0));
    commit_copies();
  };
  load_tile<kKeyDim>(queries, q + (span.row * s.n_heads + head) * s.key_dim, token0, span.n_tokens,
                     s.n_heads * s.key_dim, static_cast<int>(s.key_dim));
  int64_t key0 = first_block(position0, s);
  load_keys(key0);
  load_values(key0);

  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  float out[kValueDim / 8][4] = {};
  RowPair rows;
  for (int half = 0; half < 2; ++half) {
    const int64_t query = position0 + warp * 16 + lane / 4 + 8 * half;
    rows.first[half] = static_cast<int>(first_key(query, s));
    rows.last[half] = static_cast<int>(last_key(query, span, s));
    const int64_t token = query - span.first_position;
    if (s.picked.words && token < span.n_tokens) rows.picked[half] = s.picked.row(span.row + token, head);
  }
  for (int half = 0; s.sinks && half < 2; ++half) {  // a sink is a first key without a value
    rows.maximum[half] = s.sinks[head] * kLog2E;
    rows.total[half] = 1.0f;
  }
  for (; key0 <= last; key0 += kKeys) {
    float p[kKeys / 8][4], correction[2];
    wait_copies<1>();
    __syncthreads();  // the keys are there
    multiply_keys<kKeyDim>(p, queries, keys);
    __syncthreads();  // and nobody needs them any more
    load_keys(key0 + kKeys);
    softmax_rows(p, rows, correction, static_cast<int>(key0), s);
#pragma unroll
    for (int n = 0; n < kValueDim / 8; ++n)
      for (int i = 0; i < 4; ++i) out[n][i] *= correction[i / 2];
    wait_copies<1>();
    __syncthreads();  // the values
    multiply_values<kValueDim>(out, p, values);
    __syncthreads();
    load_values(key0 + kKeys);
  }
  wait_copies<0>();

#pragma unroll
  for (int n = 0; n < kValueDim / 8; ++n)
    for (int i = 0; i < 4; ++i) {
      const int64_t token = token0 + warp * 16 + lane / 4 + i / 2 * 8;
      const int64_t c = value0 + n * 8 + lane % 4 * 2 + i % 2;
      if (token < span.n_tokens && c < s.value_dim)
        y[((span.row + token) * s.n_heads + head) * s.value_dim + c] = narrow<bf16>(out[n][i] / rows.total[i / 2]);
    }
}

template <int kKeyDim, int kValueDim>
constexpr size_t kTileShared = sizeof(bf16) * ((kRows + kKeys) * (kKeyDim + kSkew) + kKeys * (kValueDim + kSkew));

template <int kKeyDim, int kValueDim>
void tile_attention(const void* q, void* y, const AttentionSpan* spans, const AttentionShape& s, cudaStream_t stream) {
  constexpr size_t kShared = kTileShared<kKeyDim, kValueDim>;
  const int64_t slices = (s.value_dim + kValueDim - 1) / kValueDim;
  launch(KVCAL_KERNEL(tile_attention_kernel<kKeyDim, kValueDim>),
         dim3(n_blocks(s.longest, kRows), n_blocks(s.n_heads * slices, 1), n_blocks(s.n_spans, 1)),
         dim3(kWarps * kWarp), kShared, stream, static_cast<const bf16*>(q), static_cast<bf16*>(y), spans, s);
}

template <class T>
void row_attention(const void* q, void* y, const AttentionSpan* spans, const AttentionShape& s, cudaStream_t stream) {
  const size_t shared = sizeof(float) * static_cast<size_t>(kWarps * (s.key_dim + kKeys + s.value_dim));
  launch(KVCAL_KERNEL(row_attention_kernel<T>),
         dim3(n_blocks(s.longest, kWarps), n_blocks(s.n_heads, 1), n_blocks(s.n_spans, 1)), dim3(kWarp, kWarps), shared,
         stream, static_cast<const T*>(q), static_cast<T*>(y), spans, s);
}

}  // namespace

// ---------------------------------------------------------------- launchers

void attention(DType t, const void* q, void* y, const AttentionSpan* spans, const AttentionShape& s,
               cudaStream_t stream) {
  if (s.n_spans == 0) return;
  const auto fits = [&](int64_t key_dim, int64_t value_dim) {
    return t == DType::BF16 && s.key_dim <= key_dim && s.value_dim <= value_dim;
  };
  if (fits(64, 64))
    tile_attention<64, 64>(q, y, spans, s, stream);
  else if (fits(128, 128))
    tile_attention<128, 128>(q, y, spans, s, stream);
  else if (fits(192, 128))
    tile_attention<192, 128>(q, y, spans, s, stream);
  else if (fits(256, 256))
    tile_attention<256, 256>(q, y, spans, s, stream);
  else if (fits(512, 512) && kTileShared<512, 256> <= s.shared_limit)
    tile_attention<512, 256>(q, y, spans, s, stream);
  else
    visit_activation(t, [&](auto tag) { row_attention<decltype(tag)>(q, y, spans, s, stream); });
}

}  // namespace kvcal::cuda
