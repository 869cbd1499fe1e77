// The recurrences of recurrence.cu for bf16 on tensor cores: one block per (slice of value columns, value head, span).
//
// The state lies transposed in registers, f32: a warp has 16 value columns of it, as result tiles of its own update
// S^T += E'^T K. As operands of the other products, K S and Q S, result tiles need no exchange between lanes, only to
// be cut into two bf16 each. All that a warp computes along the value columns is its own; shared memory holds the
// chunk's inputs (the next chunk's are on their way) and the two [64, 64] products of keys, made once per block.
// (I + A) E = R is solved by blocks of 16 rows: with the inverses of the diagonal blocks, found by substitution.
#include "kernels/device/shared.cuh"
#include "kernels/device/state_tile.cuh"
#include "kernels/runtime/launch.h"

namespace kvcal::cuda {
namespace {

constexpr int kChunk = 64;
constexpr int kBlock = 16;  // rows of a step of the solution
constexpr int kBlocks = kChunk / kBlock;
constexpr int kProductRow = kChunk + kSkew;

template <int kDk, int kWarps>
struct Shared {
  static constexpr int kKeyRow = kDk + kSkew, kColumns = 16 * kWarps, kValueRow = kColumns + kSkew;
  struct Inputs {
    bf16 q[kChunk * kKeyRow], k[kChunk * kKeyRow], v[kChunk * kValueRow];
  };
  Inputs inputs[2];
  bf16 attention[2][kChunk * kProductRow];  // decayed q kᵀ, lower; high and low parts
  bf16 a[2][kChunk * kProductRow];          // -A below the diagonal blocks, which hold the inverses of I + A
  float diagonal[kBlocks][kBlock * (kBlock + 1)];
  double decay_sum[kChunk];                                // G
  float from_start[kChunk], to_end[kChunk], rate[kChunk];  // e^G, e^(G_last - G), β or Δ
};

/// The place of block (i, j) of a product of rows.
__device__ constexpr int block_at(int i, int j) { return i * kBlock * kProductRow + j * kBlock; }

/// Gates of two rows of a chunk, lane and lane + 32; nothing happens in rows beyond n.
struct Gates {
  float g[2], rate[2];

  __device__ Gates(const RecurrenceArrays& arrays, int64_t row, int n, int64_t heads, int64_t head, int lane) {
    for (int i = 0; i < 2; ++i) {
      const int r = lane + i * kWarp;
      g[i] = r < n ? arrays.g[(row + r) * heads + head] : 0.0f;
      rate[i] = r < n ? arrays.rate[(row + r) * heads + head] : 0.0f;
    }
  }
};

/// By one warp. Sums in double: large ones must not cost small ones their digits.
template <class S>
__device__ void sum_gates(S& m, const Gates& gates, int lane) {
  double sum[2] = {static_cast<double>(gates.g[0]), static_cast<double>(gates.g[1])};
  for (int i = 0; i < 2; ++i)
    for (int lanes = 1; lanes < kWarp; lanes *= 2) {
      const double before = __shfl_sync(kAllLanes, sum[i], lane >= lanes ? lane - lanes : lane);
      if (lane >= lanes) sum[i] += before;
    }
  sum[1] += __shfl_sync(kAllLanes, sum[0], kWarp - 1);
  const double last = __shfl_sync(kAllLanes, sum[1], kWarp - 1);
  for (int i = 0; i < 2; ++i) {
    const int r = lane + i * kWarp;
    m.decay_sum[r] = sum[i];
    m.rate[r] = gates.rate[i];
    m.from_start[r] = expf(static_cast<float>(sum[i]));
    m.to_end[r] = expf(static_cast<float>(last - sum[i]));
  }
}

/// One 16 x 16 block of x kᵀ, block row i and column j, times the decay between its rows.
template <int kDk, bool kIsA, class S>
__device__ void product_block(S& m, const typename S::Inputs& in, int i, int j, float scale, int lane) {
  float d[2][4] = {};
  const bf16* x = (kIsA ? in.k : in.q) + (i * kBlock + lane % 16) * S::kKeyRow + lane / 16 * 8;
  const bf16* key = in.k + (j * kBlock + b_row(lane)) * S::kKeyRow + b_column(lane);
#pragma unroll
  for (int c = 0; c < kDk; c += 16) {
    uint32_t a[4], b[4];
    load_matrices(a, x + c);
    load_matrices(b, key + c);
    multiply_add_pair(d[0], d[1], a, b);
  }
  for (int n = 0; n < 2; ++n)
    for (int e = 0; e < 4; ++e) {
      const int row = i * kBlock + lane / 4 + e / 2 * 8, column = j * kBlock + n * 8 + lane % 4 * 2 + e % 2;
      // Only for earlier rows: above the diagonal the decay would overflow.
      const bool counts = kIsA ? column < row : column <= row;
      const float decay = counts ? expf(static_cast<float>(m.decay_sum[row] - m.decay_sum[column])) : 0.0f;
      const float factor = kIsA ? m.rate[row] : scale, value = counts ? factor * decay * d[n][e] : 0.0f;
      if (kIsA && i == j)
        m.diagonal[i][(row - i * kBlock) * (kBlock + 1) + column - j * kBlock] = value;
      else
        store_split(kIsA ? m.a : m.attention, row * kProductRow + column, kIsA ? -value : value);
    }
}

template <int kDk, int kWarps, bool kDelta, class S>
__device__ void products(S& m, const typename S::Inputs& in, float scale, int warp, int lane) {
  constexpr int kPairs = kBlocks * (kBlocks + 1) / 2;  // block rows and columns, j <= i
  for (int job = warp; job < (kDelta ? 2 : 1) * kPairs; job += kWarps) {
    int i = 0, j = job % kPairs;
    while (j > i) j -= ++i;
    if (job < kPairs)
      product_block<kDk, false>(m, in, i, j, scale, lane);
    else
      product_block<kDk, true>(m, in, i, j, scale, lane);
  }
}

/// Columns of (I + A)^-1 of each diagonal block, one a thread.
template <class S>
__device__ void invert_diagonal(S& m, int thread) {
  const int block = thread / kBlock, column = thread % kBlock;
  const float* a = m.diagonal[block];
  float x[kBlock];
#pragma unroll
  for (int r = 0; r < kBlock; ++r) {
    float sum = r == column ? 1.0f : 0.0f;
#pragma unroll
    for (int j = 0; j < r; ++j) sum -= a[r * (kBlock + 1) + j] * x[j];
    x[r] = sum;
  }
#pragma unroll
  for (int r = 0; r < kBlock; ++r) store_split(m.a, block_at(block, block) + r * kProductRow + column, x[r]);
}

using Columns = float[kChunk / 8][4];  // [16 value columns of a warp, 64 rows of the chunk]

/// (x S)ᵀ added to d.
template <int kDk, class S>
__device__ void times_state(Columns& d, const SplitOperand& state, const bf16* x, int c, int lane) {
  const bf16* row = x + b_row(lane) * S::kKeyRow + b_column(lane) + c;
#pragma unroll
  for (int n = 0; n < kChunk / 8; n += 2) {
    uint32_t b[4];
    load_matrices(b, row + n * 8 * S::kKeyRow);
    multiply_add_pair(d[n], d[n + 1], state, b);
  }
}

/// R -> E.
template <class S>
__device__ void solve(Columns& e, const S& m, int lane) {
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
#pragma unroll
    for (int j = 0; j < i; ++j)
      times_block<kProductRow>(e[2 * i], e[2 * i + 1], SplitOperand(e[2 * j], e[2 * j + 1]), m.a, block_at(i, j), lane);
    float left[4] = {}, right[4] = {};
    times_block<kProductRow>(left, right, SplitOperand(e[2 * i], e[2 * i + 1]), m.a, block_at(i, i), lane);
    for (int n = 0; n < 4; ++n) {
      e[2 * i][n] = left[n];
      e[2 * i + 1][n] = right[n];
    }
  }
}

template <int kDk, class S>
__device__ void advance_state(float (&state)[kDk / 8][4], const Columns& e, const S& m, const bf16* k, int lane) {
  const float decay = m.from_start[kChunk - 1];
#pragma unroll
  for (int n = 0; n < kDk / 8; ++n)
    for (int i = 0; i < 4; ++i) state[n][i] *= decay;
  const bf16* key = k + lane % 16 * S::kKeyRow + lane / 16 * 8;
#pragma unroll
  for (int j = 0; j < kBlocks; ++j) {
    float scaled[2][4];
    for (int n = 0; n < 2; ++n)
      for (int i = 0; i < 4; ++i) scaled[n][i] = e[2 * j + n][i] * m.to_end[j * kBlock + n * 8 + lane % 4 * 2 + i % 2];
    const SplitOperand a(scaled[0], scaled[1]);
#pragma unroll
    for (int n = 0; n < kDk / 8; n += 2) {
      uint32_t b[4];
      load_matrices_transposed(b, key + j * kBlock * S::kKeyRow + n * 8);
      multiply_add_pair(state[n], state[n + 1], a, b);
    }
  }
}

template <int kDk, int kWarps, bool kDelta>
__global__ void __launch_bounds__(kWarps* kWarp)
    recurrence_tiles_kernel(RecurrenceArrays arrays, const RecurrenceSpan* __restrict__ spans, RecurrenceShape s) {
  using S = Shared<kDk, kWarps>;
  S& m = *dynamic_shared<S>();
  const RecurrenceSpan span = spans[blockIdx.z];
  const int64_t head = blockIdx.y, key_head = head / (s.n_value_heads / s.n_key_heads);
  const int64_t column0 = int64_t{blockIdx.x} * S::kColumns;
  const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t column = column0 + warp * 16, value_stride = s.n_value_heads * s.dv;
  const auto rows_from = [&](int64_t t) {  // of the chunk that begins at t
    const int64_t room = kChunk - (span.first_position + t) % kChunk, left = span.n_tokens - t;
    return static_cast<int>(left < 0 ? 0 : room < left ? room : left);
  };
  const auto load = [&](typename S::Inputs& to, int64_t t, int n) {
    const int64_t row = span.row + t, key_stride = s.n_key_heads * s.dk;
    const int dk = static_cast<int>(s.dk), width = static_cast<int>(s.dv - column0);
    load_rows<kChunk, kDk, kWarps * kWarp>(to.q, static_cast<const bf16*>(arrays.q) + key_head * s.dk, row, n,
                                           key_stride, dk);
    load_rows<kChunk, kDk, kWarps * kWarp>(to.k, static_cast<const bf16*>(arrays.k) + key_head * s.dk, row, n,
                                           key_stride, dk);
    load_rows<kChunk, S::kColumns, kWarps * kWarp>(to.v, static_cast<const bf16*>(arrays.v) + head * s.dv + column0,
                                                   row, n, value_stride, width);
    commit_copies();
  };

  float state[kDk / 8][4] = {};
  float* kept = span.state ? span.state + head * s.dk * s.dv : nullptr;
  if (kept) each_of_state<kDk>(state, column, s, [&](float& x, int64_t at) { x = kept[at]; });
  int n = rows_from(0), stage = 0;
  load(m.inputs[0], 0, n);
  Gates gates(arrays, span.row, n, s.n_value_heads, head, lane);
  for (int64_t t = 0; t < span.n_tokens; stage ^= 1) {
    typename S::Inputs& in = m.inputs[stage];
    const int64_t next = t + n;
    const int n_next = rows_from(next);
    load(m.inputs[stage ^ 1], next, n_next);
    if (warp == 0) sum_gates(m, gates, lane);
    gates = Gates(arrays, span.row + next, n_next, s.n_value_heads, head, lane);
    wait_copies<1>();
    __syncthreads();  // inputs and gates are there
    products<kDk, kWarps, kDelta>(m, in, s.scale, warp, lane);
    __syncthreads();
    if (kDelta && threadIdx.x < kChunk) invert_diagonal(m, static_cast<int>(threadIdx.x));

    Columns e = {}, o = {};  // K S, then R, then E; Q S, then the output
#pragma unroll
    for (int c = 0; c < kDk; c += 16) {
      const SplitOperand operand(state[c / 8], state[c / 8 + 1]);
      if constexpr (kDelta) times_state<kDk, S>(e, operand, in.k, c, lane);
      times_state<kDk, S>(o, operand, in.q, c, lane);
    }
    const float skip = arrays.skip ? arrays.skip[head] : 0.0f;
    const bf16* value = in.v + (lane / 16 * 8 + lane % 8) * S::kValueRow + warp * 16 + lane / 8 % 2 * 8;
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      uint32_t v[4];  // of tiles 2b, 2b, 2b + 1, 2b + 1: as their registers lie
      load_matrices_transposed(v, value + b * kBlock * S::kValueRow);
      for (int i = 0; i < 8; ++i) {
        const int row = b * kBlock + i / 4 * 8 + lane % 4 * 2 + i % 2;
        const float x = __uint_as_float(i % 2 == 0 ? v[i / 2] << 16 : v[i / 2] & 0xFFFF0000u);
        float &r = e[2 * b + i / 4][i % 4], &y = o[2 * b + i / 4][i % 4];
        r = m.rate[row] * (x - m.from_start[row] * r);
        y = s.scale * m.from_start[row] * y + skip * x;
      }
    }
    if constexpr (kDelta) {
      __syncthreads();  // the inverses are there
      solve(e, m, lane);
    }
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
      const SplitOperand operand(e[2 * j], e[2 * j + 1]);
#pragma unroll
      for (int i = j; i < kBlocks; ++i)
        times_block<kProductRow>(o[2 * i], o[2 * i + 1], operand, m.attention, block_at(i, j), lane);
    }
    advance_state<kDk>(state, e, m, in.k, lane);

    // The output takes the place of the warp's own values, then goes out 16 bytes at a time.
    __syncwarp();
#pragma unroll
    for (int b = 0; b < kChunk / 8; ++b)
      for (int i = 0; i < 4; ++i)
        in.v[(b * 8 + lane % 4 * 2 + i % 2) * S::kValueRow + warp * 16 + lane / 4 + i / 2 * 8] = narrow<bf16>(o[b][i]);
    __syncwarp();
    for (int r = lane / 2; r < n; r += kWarp / 2) {
      const int64_t c = column + lane % 2 * 8;
      if (c < s.dv)
        *reinterpret_cast<uint4*>(static_cast<bf16*>(arrays.y) + (span.row + t + r) * value_stride + head * s.dv + c) =
            *reinterpret_cast<const uint4*>(in.v + r * S::kValueRow + warp * 16 + lane % 2 * 8);
    }
    __syncthreads();  // nobody needs this chunk any more
    t = next;
    n = n_next;
  }
  wait_copies<0>();
  if (kept) each_of_state<kDk>(state, column, s, [&](float& x, int64_t at) { kept[at] = x; });
}

template <int kDk, int kWarps, bool kDelta>
bool start(const RecurrenceArrays& arrays, const RecurrenceSpan* spans, const RecurrenceShape& s, size_t shared_limit,
           cudaStream_t stream) {
  using S = Shared<kDk, kWarps>;
  if (sizeof(S) > shared_limit) return false;
  launch(KVCAL_KERNEL(recurrence_tiles_kernel<kDk, kWarps, kDelta>),
         dim3(n_blocks(s.dv, S::kColumns), n_blocks(s.n_value_heads, 1), n_blocks(s.n_spans, 1)), dim3(kWarps * kWarp),
         sizeof(S), stream, arrays, spans, s);
  return true;
}

}  // namespace

// ---------------------------------------------------------------- launcher

bool recurrence_tiles(const RecurrenceArrays& arrays, const RecurrenceSpan* spans, const RecurrenceShape& s,
                      size_t shared_limit, cudaStream_t stream) {
  if (!in_packs(arrays, s)) return false;
  const auto pick = [&]<bool kDelta>() {
    if (s.dk <= 64)
      return s.dv <= 64 ? start<64, 4, kDelta>(arrays, spans, s, shared_limit, stream)
                        : start<64, 8, kDelta>(arrays, spans, s, shared_limit, stream);
    if (s.dk <= 128)
      return s.dv <= 64 ? start<128, 4, kDelta>(arrays, spans, s, shared_limit, stream)
                        : start<128, 8, kDelta>(arrays, spans, s, shared_limit, stream);
    if constexpr (!kDelta)
      if (s.dk <= 256) return start<256, 4, false>(arrays, spans, s, shared_limit, stream);
    return false;
  };
  return s.corrected ? pick.template operator()<true>() : pick.template operator()<false>();
}

}  // namespace kvcal::cuda
