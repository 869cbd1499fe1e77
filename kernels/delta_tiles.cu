// The delta rule for bf16 on tensor cores with a decay for every channel: one block per (slice of value columns, value
// head, span), in chunks of 16 rows. Formulas as in channel_delta_rule.cu.
//
// The state lies as in recurrence_tiles.cu: transposed in registers, f32, 16 value columns a warp. A decay by channel
// does not leave a product of keys, but goes into one factor of a product with the state: with G the sum of g
// from the chunk's first row on, e^G ⊙ K and e^G ⊙ Q meet the state before the chunk, e^(G_last - G) ⊙ K makes the one
// behind it. No exponent is positive, so nothing overflows. Among the rows of a chunk, pairs of rows are multiplied
// channel by channel with the decay between them; of 16 rows these are few, and chunks this short have no others.
#include "kernels/delta_tiles.h"
#include "kernels/device/shared.cuh"
#include "kernels/device/state_tile.cuh"
#include "kernels/runtime/launch.h"

namespace kvcal::cuda {
namespace {

constexpr int kChunk = 16;
constexpr int kProductRow = kChunk + kSkew;
constexpr int kSharers = 4;  // neighboring lanes that share a pair of rows

/// A sum of gates, as an exponent of 2, with what its rounding lost: large gates must not cost small ones their digits.
struct Exponent {
  float high = 0.0f, low = 0.0f;

  __device__ void add(float x) {
    const float sum = high + x, added = sum - high;
    low += (high - (sum - added)) + (x - added);
    high = sum;
  }
  __device__ float total() const { return high + low; }
};
__device__ inline float power(const Exponent& x, const Exponent& less) {
  return exp2_approximate((x.high - less.high) + (x.low - less.low));
}

template <int kDk, int kWarps>
struct Shared {
  static constexpr int kKeyRow = kDk + kSkew, kColumns = 16 * kWarps, kValueRow = kColumns + kSkew;
  struct Inputs {
    bf16 q[kChunk * kKeyRow], k[kChunk * kKeyRow], v[kChunk * kValueRow];
    float g[kChunk * kKeyRow];
  };
  using Factor = bf16[2][kChunk * kKeyRow];  // high and low parts
  Inputs inputs[2];
  alignas(16) Exponent sums[kChunk * kKeyRow];              // G
  alignas(16) Factor k_from_start, q_from_start, k_to_end;  // e^G ⊙ K, scale e^G ⊙ Q, e^(G_last - G) ⊙ K
  alignas(16) bf16 attention[2][kChunk * kProductRow];      // decayed q kᵀ, lower
  alignas(16) bf16 inverse[2][kChunk * kProductRow];        // of I + A
  float a[kChunk * (kChunk + 1)];                           // A, decayed β k kᵀ, strictly lower
  alignas(8) float remains[kDk];                            // e^G_last
  float rate[kChunk];                                       // β
};

/// G, a channel a thread; rows beyond the chunk's have gates of zero.
template <int kDk, int kThreads, class S>
__device__ void sum_gates(S& m, const typename S::Inputs& in) {
  constexpr float kLog2E = 1.44269504f;
  for (int d = static_cast<int>(threadIdx.x); d < kDk; d += kThreads) {
    Exponent sum;
    for (int r = 0; r < kChunk; ++r) {
      sum.add(kLog2E * in.g[r * S::kKeyRow + d]);
      m.sums[r * S::kKeyRow + d] = sum;
    }
    m.remains[d] = exp2_approximate(sum.total());
  }
}

/// A and the decayed q kᵀ, pairs of rows (i, j), j <= i: above the diagonal the decay would overflow.
template <int kDk, int kThreads, class S>
__device__ void multiply_pairs(S& m, const typename S::Inputs& in, float scale) {
  constexpr int kPairs = kChunk * (kChunk + 1) / 2;
  static_assert(kPairs % (kWarp / kSharers) == 0, "warps go on together, for their sums");
  const int share = static_cast<int>(threadIdx.x) % kSharers;
  for (int pair = static_cast<int>(threadIdx.x) / kSharers; pair < kPairs; pair += kThreads / kSharers) {
    int i = 0, j = pair;
    while (j > i) j -= ++i;
    const int row = i * S::kKeyRow, earlier_row = j * S::kKeyRow;
    float kk = 0.0f, qk = 0.0f;
#pragma unroll 2
    for (int d = 2 * share; d < kDk; d += 2 * kSharers) {
      const auto later = *reinterpret_cast<const Pack<Exponent, 2>*>(m.sums + row + d),
                 earlier = *reinterpret_cast<const Pack<Exponent, 2>*>(m.sums + earlier_row + d);
      const uint32_t key = *reinterpret_cast<const uint32_t*>(in.k + earlier_row + d),
                     own_key = *reinterpret_cast<const uint32_t*>(in.k + row + d),
                     query = *reinterpret_cast<const uint32_t*>(in.q + row + d);
      const float low = power(later.values[0], earlier.values[0]) * widen_low(key),
                  high = power(later.values[1], earlier.values[1]) * widen_high(key);
      kk = fmaf(widen_high(own_key), high, fmaf(widen_low(own_key), low, kk));
      qk = fmaf(widen_high(query), high, fmaf(widen_low(query), low, qk));
    }
    kk = warp_reduce<kSharers>(kk, Sum());
    qk = warp_reduce<kSharers>(qk, Sum());
    if (share != 0) continue;
    store_split(m.attention, i * kProductRow + j, scale * qk);
    if (j == i) continue;
    store_split(m.attention, j * kProductRow + i, 0.0f);
    m.a[i * (kChunk + 1) + j] = m.rate[i] * kk;
  }
}

/// Two neighbors of a factor.
template <int kSize>
__device__ void store_pair(bf16 (&to)[2][kSize], int at, float low, float high) {
  const uint32_t rounded = narrow_pair(low, high);
  *reinterpret_cast<uint32_t*>(to[0] + at) = rounded;
  *reinterpret_cast<uint32_t*>(to[1] + at) = narrow_pair(low - widen_low(rounded), high - widen_high(rounded));
}

template <int kDk, int kThreads, class S>
__device__ void make_factors(S& m, const typename S::Inputs& in, float scale) {
  for (int i = static_cast<int>(threadIdx.x); i < kChunk * kDk / 2; i += kThreads) {
    const int d = i % (kDk / 2) * 2, at = i / (kDk / 2) * S::kKeyRow + d;
    const auto sum = *reinterpret_cast<const Pack<Exponent, 2>*>(m.sums + at),
               last = *reinterpret_cast<const Pack<Exponent, 2>*>(m.sums + (kChunk - 1) * S::kKeyRow + d);
    const uint32_t key = *reinterpret_cast<const uint32_t*>(in.k + at),
                   query = *reinterpret_cast<const uint32_t*>(in.q + at);
    const float low = exp2_approximate(sum.values[0].total()), high = exp2_approximate(sum.values[1].total());
    store_pair(m.k_from_start, at, low * widen_low(key), high * widen_high(key));
    store_pair(m.q_from_start, at, scale * low * widen_low(query), scale * high * widen_high(query));
    store_pair(m.k_to_end, at, power(last.values[0], sum.values[0]) * widen_low(key),
               power(last.values[1], sum.values[1]) * widen_high(key));
  }
}

/// (I + A)^-1, a column a thread.
template <class S>
__device__ void invert(S& m, int column) {
  float x[kChunk];
#pragma unroll
  for (int r = 0; r < kChunk; ++r) {
    float sum = r == column ? 1.0f : 0.0f;
#pragma unroll
    for (int j = 0; j < r; ++j) sum -= m.a[r * (kChunk + 1) + j] * x[j];
    x[r] = sum;
  }
#pragma unroll
  for (int r = 0; r < kChunk; ++r) store_split(m.inverse, r * kProductRow + column, x[r]);
}

using Columns = float[2][4];  // [16 value columns of a warp, 16 rows of the chunk]

/// (x S)ᵀ added to d, 16 channels of it.
template <class S>
__device__ void times_state(Columns& d, const SplitOperand& state, const typename S::Factor& x, int c, int lane) {
  const int at = b_row(lane) * S::kKeyRow + b_column(lane) + c;
  uint32_t high[4], low[4];
  load_matrices(high, x[0] + at);
  load_matrices(low, x[1] + at);
  multiply_add_pair(d[0], d[1], state, high, low);
}

template <int kDk, class S>
__device__ void advance_state(float (&state)[kDk / 8][4], const Columns& e, const S& m, int lane) {
  const SplitOperand a(e[0], e[1]);
  const int key = lane % 16 * S::kKeyRow + lane / 16 * 8;
#pragma unroll
  for (int n = 0; n < kDk / 8; n += 2) {
    uint32_t high[4], low[4];
    load_matrices_transposed(high, m.k_to_end[0] + key + n * 8);
    load_matrices_transposed(low, m.k_to_end[1] + key + n * 8);
#pragma unroll
    for (int tile = n; tile < n + 2; ++tile)
      for (int i = 0; i < 4; ++i) state[tile][i] *= m.remains[tile * 8 + lane % 4 * 2 + i % 2];
    multiply_add_pair(state[n], state[n + 1], a, high, low);
  }
}

template <int kDk, int kWarps, bool kByChannel>
__global__ void __launch_bounds__(kWarps* kWarp, 2)
    delta_tiles_kernel(RecurrenceArrays arrays, const RecurrenceSpan* __restrict__ spans, RecurrenceShape s) {
  using S = Shared<kDk, kWarps>;
  constexpr int kThreads = kWarps * kWarp;
  S& m = *dynamic_shared<S>();
  const RecurrenceSpan span = spans[blockIdx.z];
  const int64_t head = blockIdx.y, key_head = head / (s.n_value_heads / s.n_key_heads);
  const int64_t column0 = int64_t{blockIdx.x} * S::kColumns;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp, lane = thread % kWarp;
  const int64_t column = column0 + warp * 16, value_stride = s.n_value_heads * s.dv;
  const auto rows_from = [&](int64_t t) {  // of the chunk that begins at t
    const int64_t room = kChunk - (span.first_position + t) % kChunk, left = span.n_tokens - t;
    return static_cast<int>(left < 0 ? 0 : room < left ? room : left);
  };
  const auto load = [&](typename S::Inputs& to, int64_t t, int n) {
    const int64_t row = span.row + t, keys = s.n_key_heads * s.dk;
    const int dk = static_cast<int>(s.dk), width = static_cast<int>(s.dv - column0);
    load_rows<kChunk, kDk, kThreads>(to.q, static_cast<const bf16*>(arrays.q) + key_head * s.dk, row, n, keys, dk);
    load_rows<kChunk, kDk, kThreads>(to.k, static_cast<const bf16*>(arrays.k) + key_head * s.dk, row, n, keys, dk);
    load_rows<kChunk, S::kColumns, kThreads>(to.v, static_cast<const bf16*>(arrays.v) + head * s.dv + column0, row, n,
                                             value_stride, width);
    if constexpr (kByChannel)
      load_rows<kChunk, kDk, kThreads>(to.g, arrays.g + head * s.dk, row, n, s.n_value_heads * s.dk, dk);
    else
      for (int i = thread; i < kChunk * kDk; i += kThreads)
        to.g[i / kDk * S::kKeyRow + i % kDk] = i / kDk < n ? arrays.g[(row + i / kDk) * s.n_value_heads + head] : 0.0f;
    commit_copies();
  };
  const auto rate_of = [&](int64_t t, int n) {
    return thread < n ? arrays.rate[(span.row + t + thread) * s.n_value_heads + head] : 0.0f;
  };

  float state[kDk / 8][4] = {};
  float* kept = span.state ? span.state + head * s.dk * s.dv : nullptr;
  if (kept) each_of_state<kDk>(state, column, s, [&](float& x, int64_t at) { x = kept[at]; });
  int n = rows_from(0), stage = 0;
  load(m.inputs[0], 0, n);
  float rate = rate_of(0, n);
  for (int64_t t = 0; t < span.n_tokens; stage ^= 1) {
    typename S::Inputs& in = m.inputs[stage];
    const int64_t next = t + n;
    const int n_next = rows_from(next);
    wait_copies<0>();
    __syncthreads();  // the inputs are there, and nobody needs the chunk before
    load(m.inputs[stage ^ 1], next, n_next);
    sum_gates<kDk, kThreads>(m, in);
    if (thread < kChunk) m.rate[thread] = rate;
    rate = rate_of(next, n_next);
    __syncthreads();
    multiply_pairs<kDk, kThreads>(m, in, s.scale);
    make_factors<kDk, kThreads>(m, in, s.scale);
    __syncthreads();
    if (thread < kChunk) invert(m, thread);

    Columns e = {}, o = {};  // K S, then R, then E; Q S, then the output
#pragma unroll
    for (int c = 0; c < kDk; c += 16) {
      const SplitOperand operand(state[c / 8], state[c / 8 + 1]);
      times_state<S>(e, operand, m.k_from_start, c, lane);
      times_state<S>(o, operand, m.q_from_start, c, lane);
    }
    uint32_t v[4];  // of tiles 0, 0, 1, 1: as their registers lie
    load_matrices_transposed(v, in.v + (lane / 16 * 8 + lane % 8) * S::kValueRow + warp * 16 + lane / 8 % 2 * 8);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float x = i % 2 == 0 ? widen_low(v[i / 2]) : widen_high(v[i / 2]);
      float& r = e[i / 4][i % 4];
      r = m.rate[i / 4 * 8 + lane % 4 * 2 + i % 2] * (x - r);
    }
    __syncthreads();  // the inverse is there
    Columns corrections = {};
    times_block<kProductRow>(corrections[0], corrections[1], SplitOperand(e[0], e[1]), m.inverse, 0, lane);
    times_block<kProductRow>(o[0], o[1], SplitOperand(corrections[0], corrections[1]), m.attention, 0, lane);
    advance_state<kDk>(state, corrections, m, lane);

    // The output takes the place of the warp's own values, which were read before the barrier; then it goes out 16
    // bytes at a time.
#pragma unroll
    for (int i = 0; i < 8; ++i)
      in.v[(i / 4 * 8 + lane % 4 * 2 + i % 2) * S::kValueRow + warp * 16 + lane / 4 + i % 4 / 2 * 8] =
          narrow<bf16>(o[i / 4][i % 4]);
    __syncwarp();
    const int64_t c = column + lane % 2 * 8;
    if (const int r = lane / 2; r < n && c < s.dv)
      *reinterpret_cast<uint4*>(static_cast<bf16*>(arrays.y) + (span.row + t + r) * value_stride + head * s.dv + c) =
          *reinterpret_cast<const uint4*>(in.v + r * S::kValueRow + warp * 16 + lane % 2 * 8);
    t = next;
    n = n_next;
  }
  wait_copies<0>();
  if (kept) each_of_state<kDk>(state, column, s, [&](float& x, int64_t at) { kept[at] = x; });
}

template <int kDk, int kWarps, bool kByChannel>
bool start(const RecurrenceArrays& arrays, const RecurrenceSpan* spans, const RecurrenceShape& s, size_t shared_limit,
           cudaStream_t stream) {
  using S = Shared<kDk, kWarps>;
  if (sizeof(S) > shared_limit) return false;
  launch(KVCAL_KERNEL(delta_tiles_kernel<kDk, kWarps, kByChannel>),
         dim3(n_blocks(s.dv, S::kColumns), n_blocks(s.n_value_heads, 1), n_blocks(s.n_spans, 1)), dim3(kWarps * kWarp),
         sizeof(S), stream, arrays, spans, s);
  return true;
}

}  // namespace

// ---------------------------------------------------------------- launcher

bool delta_tiles(Gates gates, const RecurrenceArrays& arrays, const RecurrenceSpan* spans, const RecurrenceShape& s,
                 size_t shared_limit, cudaStream_t stream) {
  const auto pick = [&]<bool kByChannel>() {
    if (s.dk <= 64)
      return s.dv <= 64 ? start<64, 4, kByChannel>(arrays, spans, s, shared_limit, stream)
                        : start<64, 8, kByChannel>(arrays, spans, s, shared_limit, stream);
    if (s.dk <= 128)
      return s.dv <= 64 ? start<128, 4, kByChannel>(arrays, spans, s, shared_limit, stream)
                        : start<128, 8, kByChannel>(arrays, spans, s, shared_limit, stream);
    return false;
  };
  if (!in_packs(arrays, s)) return false;
  if (gates == Gates::ByHead) return pick.template operator()<false>();
  return reinterpret_cast<uintptr_t>(arrays.g) % 16 == 0 && pick.template operator()<true>();
}

}  // namespace kvcal::cuda
