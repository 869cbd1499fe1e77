// Which keys an indexer lets a query see: a rank for each key, then the best ranks of each query.
//
// rank_keys_kernel: products of 64 rows (queries with all their heads) and 64 keys in tiles of 4 x 4 a thread, then the
// weighted sum over the heads of a query. pick_kernel: the rank of the last unit that is picked, digit by digit from
// counts, which are whole numbers: nothing depends on the order of threads.
#include "kernels/device/real.cuh"
#include "kernels/device/reduce.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

constexpr int kTile = 64, kThreads = 256, kSlab = 32, kSkew = 4;
constexpr int kAcross = 16;   // threads along the keys of a tile, each with 4
constexpr int kDigits = 256;  // values of a digit of a rank
constexpr uint32_t kBestRank = ~uint32_t{0};

/// In the order of the scores, NaN on top; both zeros are one.
__device__ uint32_t rank_of(float score) {
  if (score != score) return kBestRank;
  const uint32_t bits = __float_as_uint(score + 0.0f);
  return bits >> 31 ? ~bits : bits | 1u << 31;
}

/// Queries of a tile: whole ones, or one of which a tile has some heads.
__host__ __device__ int64_t queries_of_tile(int64_t heads) { return heads >= kTile ? 1 : kTile / heads; }

struct alignas(16) Slabs {
  float query[kSlab][kTile + kSkew], key[kSlab][kTile + kSkew];
};
struct Dots {
  float at[kTile][kTile + kSkew];  // [rows, keys]
};

/// Products of rows [row0, row0 + n) of q with keys [key0, key0 + 64), zeros beyond the last of either.
template <class T>
__device__ void multiply(Dots& dots, Slabs& slabs, const T* q, int64_t row0, int64_t n, const T* keys, int64_t key0,
                         int64_t n_keys, int64_t dim) {
  const int thread = static_cast<int>(threadIdx.x), d = thread % kSlab;
  const int row = thread / kAcross * 4, key = thread % kAcross * 4;
  float sum[4][4] = {};
  for (int64_t d0 = 0; d0 < dim; d0 += kSlab) {
    __syncthreads();  // the slab before has been read
    for (int r = thread / kSlab; r < kTile; r += kThreads / kSlab) {
      slabs.query[d][r] = r < n && d0 + d < dim ? widen(q[(row0 + r) * dim + d0 + d]) : 0.0f;
      slabs.key[d][r] = key0 + r < n_keys && d0 + d < dim ? widen(keys[(key0 + r) * dim + d0 + d]) : 0.0f;
    }
    __syncthreads();
#pragma unroll 8
    for (int i = 0; i < kSlab; ++i) {
      const auto x = *reinterpret_cast<const Pack<float, 4>*>(&slabs.query[i][row]);
      const auto k = *reinterpret_cast<const Pack<float, 4>*>(&slabs.key[i][key]);
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int j = 0; j < 4; ++j) sum[r][j] = fmaf(x.values[r], k.values[j], sum[r][j]);
    }
  }
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int j = 0; j < 4; ++j) dots.at[row + r][key + j] = sum[r][j];
  __syncthreads();
}

/// Block (keys, queries of the slice, span).
template <class T>
__global__ void __launch_bounds__(kThreads, 2)
    rank_keys_kernel(const T* __restrict__ q, const T* __restrict__ weights, const PickSpan* __restrict__ spans,
                     uint32_t* __restrict__ ranks, PickShape s) {
  KVCAL_SHARED(Slabs, slabs, 1);
  KVCAL_SHARED(Dots, dots, 1);
  const PickSpan span = spans[blockIdx.z];
  const int64_t query0 = int64_t{blockIdx.y} * queries_of_tile(s.heads), key0 = int64_t{blockIdx.x} * kTile;
  const int64_t n_keys = span.first_position + span.n_tokens;
  if (query0 >= span.n_tokens || key0 >= n_keys || n_keys <= s.n_picked * s.block) return;  // or all are picked
  const int64_t n_queries =
      queries_of_tile(s.heads) < span.n_tokens - query0 ? queries_of_tile(s.heads) : span.n_tokens - query0;
  const int64_t first_row = (span.row + query0) * s.heads;
  const auto to = [&](int64_t picker, int64_t key) -> uint32_t& {  // picker: of the tile's queries
    return ranks[((span.row + query0 - s.first_row) * s.pickers + picker) * s.row_ranks + key0 + key];
  };
  float before = 0.0f;  // of the tile's heads before, where a query has more than a tile
  for (int64_t head0 = 0; head0 < n_queries * s.heads; head0 += kTile) {
    const int64_t n = n_queries * s.heads - head0 < kTile ? n_queries * s.heads - head0 : kTile;
    multiply(dots[0], slabs[0], q, first_row + head0, n, static_cast<const T*>(span.key), key0, n_keys, s.dim);
    const int64_t n_rows = weights ? n_queries : n;
    for (int64_t i = threadIdx.x; i < n_rows * kTile; i += kThreads) {
      const int64_t row = i / kTile, key = i % kTile;
      if (!weights) {
        to(head0 + row, key) = rank_of(dots[0].at[row][key]);
        continue;
      }
      const int64_t heads = s.heads < n ? s.heads : n;
      float score = before;
      for (int64_t h = 0; h < heads; ++h) {
        const float dot = dots[0].at[row * s.heads + h][key];
        score += (dot > 0.0f ? dot : 0.0f) * widen(weights[first_row + head0 + row * s.heads + h]);
      }
      before = head0 + n < n_queries * s.heads ? score : 0.0f;
      if (head0 + n == n_queries * s.heads) to(row, key) = rank_of(score);
    }
  }
}

/// The units (keys, or blocks of keys) among which a query chooses.
struct Units {
  const uint32_t* ranks;  // of keys; or of blocks, of which the last may be a part
  int64_t n, n_local;

  __device__ uint32_t rank(int64_t unit) const { return unit >= n - n_local ? kBestRank : ranks[unit]; }
};

/// What is picked: everything above a rank, and of that rank what is not behind `last`.
struct Choice {
  uint32_t rank;
  int64_t last;
  __device__ bool has(uint32_t of_unit, int64_t unit) const {
    return of_unit > rank || (of_unit == rank && unit <= last);
  }
};

/// The largest digit at `shift`, in ranks that begin with `prefix` above it, from which on there are at least `wanted`;
/// `wanted` becomes what is left for that digit.
__device__ inline uint32_t digit_of_last(const Units& units, uint32_t prefix, int shift, int64_t& wanted) {
  KVCAL_SHARED(int32_t, count, kDigits);
  KVCAL_SHARED(int32_t, found, 2);
  __syncthreads();  // a call before this one may still be reading
  for (int i = static_cast<int>(threadIdx.x); i < kDigits; i += kThreads) count[i] = 0;
  __syncthreads();
  for (int64_t u = threadIdx.x; u < units.n; u += kThreads) {
    const uint32_t rank = units.rank(u);
    if (shift == 24 || (rank ^ prefix) >> (shift + 8) == 0) atomicAdd(&count[rank >> shift & 255u], 1);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    int digit = kDigits - 1;
    int32_t left = static_cast<int32_t>(wanted);
    while (digit > 0 && count[digit] < left) left -= count[digit--];
    found[0] = digit;
    found[1] = left;
  }
  __syncthreads();
  wanted = found[1];
  return static_cast<uint32_t>(found[0]);
}

/// Of `rank` the `wanted`-th unit. Threads count neighbouring units, then the one that has it looks for it.
__device__ inline int64_t place_of(const Units& units, uint32_t rank, int64_t wanted) {
  KVCAL_SHARED(int32_t, count, kThreads);
  KVCAL_SHARED(int64_t, place, 1);
  const int64_t per_thread = (units.n + kThreads - 1) / kThreads, first = threadIdx.x * per_thread;
  const int64_t end = first + per_thread < units.n ? first + per_thread : units.n;
  int32_t own = 0;
  for (int64_t u = first; u < end; ++u) own += units.rank(u) == rank;
  count[threadIdx.x] = own;
  __syncthreads();
  int64_t left = wanted;
  for (unsigned t = 0; t < threadIdx.x; ++t) left -= count[t];
  if (left > 0 && left <= own)
    for (int64_t u = first; u < end; ++u)
      if (units.rank(u) == rank && --left == 0) place[0] = u;
  __syncthreads();
  return place[0];
}

/// Block (picker, query of the slice, span).
__global__ void __launch_bounds__(kThreads)
    pick_kernel(const uint32_t* __restrict__ ranks, uint32_t* __restrict__ blocks, const PickSpan* __restrict__ spans,
                uint64_t* __restrict__ picked, PickShape s) {
  const PickSpan span = spans[blockIdx.z];
  if (blockIdx.y >= span.n_tokens) return;
  const int64_t row = (span.row + blockIdx.y) * s.pickers + blockIdx.x, in_slice = row - s.first_row * s.pickers;
  const int64_t position = span.first_position + blockIdx.y;
  const uint32_t* own = ranks + in_slice * s.row_ranks;
  Units units{own, position / s.block + 1, s.n_local};
  const bool chooses = units.n > s.n_picked;
  if (chooses && s.block > 1) {
    uint32_t* best = blocks + in_slice * s.row_blocks;
    for (int64_t u = threadIdx.x; u < units.n; u += kThreads) {
      uint32_t top = 0;
      for (int64_t j = u * s.block; j < (u + 1) * s.block && j <= position; ++j) top = own[j] > top ? own[j] : top;
      best[u] = top;
    }
    units.ranks = best;
    __syncthreads();
  }
  Choice choice{};
  if (chooses) {
    int64_t wanted = s.n_picked;
    for (int shift = 24; shift >= 0; shift -= 8)
      choice.rank |= digit_of_last(units, choice.rank, shift, wanted) << shift;
    choice.last = place_of(units, choice.rank, wanted);
  }
  for (int64_t w = threadIdx.x; w < s.words; w += kThreads) {
    uint64_t word = 0;
    for (int64_t j = w * kPickBits; j < (w + 1) * kPickBits && j <= position; ++j)
      if (!chooses || choice.has(units.rank(j / s.block), j / s.block)) word |= uint64_t{1} << (j % kPickBits);
    picked[row * s.words + w] = word;
  }
}

}  // namespace

// ---------------------------------------------------------------- launchers

void rank_keys(DType t, const void* q, const void* weights, const PickSpan* spans, uint32_t* ranks, const PickShape& s,
               cudaStream_t stream) {
  const dim3 grid(n_blocks(s.row_ranks, kTile), n_blocks(s.longest, queries_of_tile(s.heads)), n_blocks(s.n_spans, 1));
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    launch(KVCAL_KERNEL(rank_keys_kernel<T>), grid, dim3(kThreads), 0, stream, static_cast<const T*>(q),
           static_cast<const T*>(weights), spans, ranks, s);
  });
}

void pick_keys(const uint32_t* ranks, uint32_t* blocks, const PickSpan* spans, uint64_t* picked, const PickShape& s,
               cudaStream_t stream) {
  launch(KVCAL_KERNEL(pick_kernel), dim3(n_blocks(s.pickers, 1), n_blocks(s.longest, 1), n_blocks(s.n_spans, 1)),
         dim3(kThreads), 0, stream, ranks, blocks, spans, picked, s);
}

}  // namespace kvcal::cuda
