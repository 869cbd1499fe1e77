// Which keys an indexer lets a query see: a rank for each key, then the best ranks of each query.
//
// A tile of ranks has 64 rows, queries with all their heads, and 64 keys: products, then the weighted sum over the
// heads of a query. rank_tiles_kernel: bf16 on tensor cores. rank_keys_kernel: tiles of 4 x 4 a thread; f32, and heads
// that are too wide for the other. pick_kernel: the rank of the last unit that is picked, digit by digit from counts,
// which are whole numbers: nothing depends on the order of threads.
#include "kernels/device/key_tile.cuh"
#include "kernels/device/real.cuh"
#include "kernels/device/reduce.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

constexpr int kTile = 64, kThreads = 256, kSlab = 32, kSlabSkew = 4;
static_assert(kTile == kRows && kTile == kKeys);
constexpr int kAcross = 16;     // threads along the keys of a tile, each with 4
constexpr int kQueryTiles = 8;  // that meet a block's keys, where these are loaded once
constexpr int kDigits = 256;    // values of a digit of a rank
constexpr uint32_t kBestRank = ~uint32_t{0};

/// In the order of the scores, NaN on top; both zeros are one.
__device__ uint32_t rank_of(float score) {
  if (score != score) return kBestRank;
  const uint32_t bits = __float_as_uint(score + 0.0f);
  return bits >> 31 ? ~bits : bits | 1u << 31;
}

/// Queries of a tile: whole ones, or one of which a tile has some heads.
__host__ __device__ int64_t queries_of_tile(int64_t heads) { return heads >= kTile ? 1 : kTile / heads; }

struct Dots {
  float at[kTile][kTile + kSkew];  // [rows, keys]
};

/// Whether a query among n of a span chooses, and could choose the key.
__device__ bool needs_ranks(const PickSpan& span, int64_t query0, int64_t n, int64_t key, const PickShape& s) {
  const int64_t last = span.first_position + query0 + n - 1;
  return key <= last && last / s.block >= s.n_picked;
}

/// Of a tile's n rows, which are all heads of some queries, or some of one: ranks [pickers of the tile, row_ranks] from
/// its first key on. With weights, `score` of a thread is what earlier tiles of the same query have, which `last` ends.
template <class T, int kBlock>
__device__ void rank_tile(const Dots& dots, const T* weights, uint32_t* ranks, int64_t n, float& score, bool last,
                          const PickShape& s) {
  constexpr int kParts = kBlock / kTile;  // threads, side by side, that share the heads of a query and key
  if (!weights) {
    for (int64_t i = threadIdx.x; i < n * kTile; i += kBlock)
      ranks[i / kTile * s.row_ranks + i % kTile] = rank_of(dots.at[i / kTile][i % kTile]);
    return;
  }
  const int64_t heads = s.heads < n ? s.heads : n, key = threadIdx.x / kParts;
  for (int64_t query = 0; query < n / heads; ++query) {
    float sum = 0.0f;
    for (int64_t h = threadIdx.x % kParts; h < heads; h += kParts) {
      const float dot = dots.at[query * heads + h][key];
      sum += (dot > 0.0f ? dot : 0.0f) * widen(weights[query * heads + h]);
    }
    for (int lanes = 1; lanes < kParts; lanes *= 2) sum += __shfl_xor_sync(kAllLanes, sum, lanes);
    score += sum;
    if (!last) continue;
    if (threadIdx.x % kParts == 0) ranks[query * s.row_ranks + key] = rank_of(score);
    score = 0.0f;
  }
}

// ---------------------------------------------------------------- tiles on tensor cores

template <int kDim>
struct alignas(16) TileMemory {
  bf16 keys[kKeys * (kDim + kSkew)], queries[kRows * (kDim + kSkew)];
  Dots dots;
};

/// A warp's 16 rows of the tile.
template <int kDim>
__device__ void multiply_tile(TileMemory<kDim>& memory) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, row = static_cast<int>(threadIdx.x) / kWarp * 16 + lane / 4;
  float dots[kKeys / 8][4];
  multiply_keys<kDim>(dots, memory.queries, memory.keys);
#pragma unroll
  for (int n = 0; n < kKeys / 8; ++n)
    for (int i = 0; i < 4; ++i) memory.dots.at[row + i / 2 * 8][n * 8 + lane % 4 * 2 + i % 2] = dots[n][i];
}

/// Block (keys, kQueryTiles tiles of the slice's queries, span).
template <int kDim>
__global__ void __launch_bounds__(kWarps* kWarp)
    rank_tiles_kernel(const bf16* __restrict__ q, const bf16* __restrict__ weights, const PickSpan* __restrict__ spans,
                      uint32_t* __restrict__ ranks, PickShape s) {
  auto& memory = *dynamic_shared<TileMemory<kDim>>();
  const PickSpan span = spans[blockIdx.z];
  const int64_t step = queries_of_tile(s.heads), first = int64_t{blockIdx.y} * kQueryTiles * step;
  const int64_t end = first + kQueryTiles * step < span.n_tokens ? first + kQueryTiles * step : span.n_tokens;
  const int64_t key0 = int64_t{blockIdx.x} * kTile;
  if (first >= end || !needs_ranks(span, first, end - first, key0, s)) return;
  load_tile<kDim>(memory.keys, static_cast<const bf16*>(span.key), key0, span.first_position + span.n_tokens, s.dim,
                  static_cast<int>(s.dim));
  commit_copies();
  float score = 0.0f;
  for (int64_t query0 = first; query0 < end; query0 += step) {
    const int64_t n_queries = step < end - query0 ? step : end - query0, n_rows = n_queries * s.heads;
    if (!needs_ranks(span, query0, n_queries, key0, s)) continue;
    const int64_t row0 = (span.row + query0) * s.heads;
    for (int64_t head0 = 0; head0 < n_rows; head0 += kTile) {
      const int64_t n = n_rows - head0 < kTile ? n_rows - head0 : kTile;
      load_tile<kDim>(memory.queries, q + row0 * s.dim, head0, n_rows, s.dim, static_cast<int>(s.dim));
      commit_copies();
      wait_copies<0>();
      __syncthreads();  // rows and keys are there, and the products before have been ranked
      multiply_tile(memory);
      __syncthreads();
      const int64_t picker = (span.row + query0 - s.first_row) * s.pickers + (weights ? 0 : head0);
      rank_tile<bf16, kWarps * kWarp>(memory.dots, weights ? weights + row0 + head0 : nullptr,
                                      ranks + picker * s.row_ranks + key0, n, score, head0 + n == n_rows, s);
    }
  }
}

// ---------------------------------------------------------------- tiles of 4 x 4 a thread

struct alignas(16) Slabs {
  float query[kSlab][kTile + kSlabSkew], key[kSlab][kTile + kSlabSkew];
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
  const int64_t step = queries_of_tile(s.heads), query0 = int64_t{blockIdx.y} * step,
                key0 = int64_t{blockIdx.x} * kTile;
  if (query0 >= span.n_tokens) return;
  const int64_t n_queries = step < span.n_tokens - query0 ? step : span.n_tokens - query0, n_rows = n_queries * s.heads;
  if (!needs_ranks(span, query0, n_queries, key0, s)) return;
  const int64_t row0 = (span.row + query0) * s.heads;
  float score = 0.0f;
  for (int64_t head0 = 0; head0 < n_rows; head0 += kTile) {
    const int64_t n = n_rows - head0 < kTile ? n_rows - head0 : kTile;
    multiply(dots[0], slabs[0], q, row0 + head0, n, static_cast<const T*>(span.key), key0,
             span.first_position + span.n_tokens, s.dim);
    const int64_t picker = (span.row + query0 - s.first_row) * s.pickers + (weights ? 0 : head0);
    rank_tile<T, kThreads>(dots[0], weights ? weights + row0 + head0 : nullptr, ranks + picker * s.row_ranks + key0, n,
                           score, head0 + n == n_rows, s);
  }
}

// ---------------------------------------------------------------- the choice

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

template <int kDim>
static void rank_tiles(const void* q, const void* weights, const PickSpan* spans, uint32_t* ranks, const PickShape& s,
                       cudaStream_t stream) {
  const dim3 grid(n_blocks(s.row_ranks, kTile), n_blocks(s.longest, kQueryTiles * queries_of_tile(s.heads)),
                  n_blocks(s.n_spans, 1));
  launch(KVCAL_KERNEL(rank_tiles_kernel<kDim>), grid, dim3(kWarps * kWarp), sizeof(TileMemory<kDim>), stream,
         static_cast<const bf16*>(q), static_cast<const bf16*>(weights), spans, ranks, s);
}

void rank_keys(DType t, const void* q, const void* weights, const PickSpan* spans, uint32_t* ranks, const PickShape& s,
               cudaStream_t stream) {
  if (t == DType::BF16 && s.dim <= 64) return rank_tiles<64>(q, weights, spans, ranks, s, stream);
  if (t == DType::BF16 && s.dim <= 128) return rank_tiles<128>(q, weights, spans, ranks, s, stream);
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
