// What the kernels of sampled attention share: a block has 32 query rows of one key-value head, that is sampled
// positions with all query heads of the group, and walks over key blocks of 64 at absolute positions with an online
// softmax. Products are of f32, 8 or 16 fmaf to two reads of shared memory.
//
// A key block in which a row sees nothing changes nothing of it, so a row's figures do not depend on its tile.
#pragma once

#include "kernels/device/real.cuh"
#include "kernels/device/reduce.cuh"
#include "kernels/device/rung.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/grid.h"

namespace kvcal::cuda {

constexpr int kKeys = 64, kRows = 32, kThreads = 256;
constexpr int kKeyThreads = 16;  // that share a row in multiply_keys()
constexpr int kSlots = 4;        // of a ladder that one walk over the keys tries
constexpr int kMostBelow = 8;    // SampleRequest::rungs_below
constexpr int kLowestTried = kLeastRung - kMostBelow, kTried = kMostRung + 2 - kLowestTried + 1;

// ---------------------------------------------------------------- rows

/// Log of a sum of exponentials.
struct LogSum {
  float maximum, total;
};

/// exp(x - maximum); nothing for what is not visible, also where the maximum is that of nothing.
__device__ inline float below(float x, float maximum) { return x == -INFINITY ? 0.0f : expf(x - maximum); }

/// With a block of the given maximum and sum of exponentials below it.
__device__ inline LogSum joined(const LogSum& sum, float top, float total) {
  const float next = fmaxf(sum.maximum, top);
  return {next, sum.total * below(sum.maximum, next) + total * below(top, next)};
}

/// KL(p, p') of Σ p (l - l') below the exact maximum and the two sums.
__device__ inline float divergence_of(float moved, const LogSum& exact, const LogSum& rounded) {
  const auto value = [](const LogSum& sum) {
    return static_cast<double>(sum.maximum) + log(static_cast<double>(sum.total));
  };
  const double d = static_cast<double>(moved / exact.total) + (value(rounded) - value(exact));
  return d < 0.0 ? 0.0f : static_cast<float>(d);
}

/// What is kept of a query row between key blocks, whatever is tried.
struct TileRow {
  LogSum exact;
  float factor;  // what sums so far are worth under the new maximum
  int first_key, last_key;
  int64_t query;    // of q: row of the batch · n_heads + head
  int64_t figures;  // of figures: sampled row · n_heads + head
  int lowest[3];    // rungs of keys, of values, of the query
  bool there;
};

/// Whether a sequence has so many rows: sampled positions, each with all query heads of a group.
__device__ inline bool has_row(const SampledSequence& sequence, int64_t r, const SampleShape& s) {
  return r < sequence.n_rows * (s.n_heads / s.n_kv_heads);
}

/// Row r of a sequence; one behind the last is not there.
__device__ inline TileRow row_of(int64_t r, const SampledSequence& sequence, const SampleArrays& a,
                                 const SampleShape& s) {
  const int64_t group = s.n_heads / s.n_kv_heads;
  TileRow row = {};
  row.there = has_row(sequence, r, s);
  if (!row.there) return row;
  const SampledRow sampled = a.rows[sequence.first_row + r / group];
  const int64_t index = sampled.index, head = blockIdx.y * group + r % group;
  row.query = sampled.row * s.n_heads + head;
  row.figures = index * s.n_heads + head;
  row.first_key = sampled.first_key;
  row.last_key = sampled.last_key;
  for (int i = 0; i < 3; ++i) row.lowest[i] = i < s.n_rungs ? a.rungs[s.n_rungs * index + i] : 0;
  // A sink is a first key without a value, and rounded never.
  row.exact = a.sinks ? LogSum{a.sinks[head], 1.0f} : LogSum{-INFINITY, 0.0f};
  return row;
}

/// Those of the ladder of keys and values that a walk tries, of n_walks for all.
__device__ inline int n_walks(const SampleShape& s) { return (s.n_slots + kSlots - 1) / kSlots; }
__device__ inline Slots slots_of(int walk, const SampleShape& s) {
  const int first = walk * kSlots, left = s.n_slots - first;
  return {s.rungs_below, s.n_slots, first, left < kSlots ? left : kSlots};
}

/// Row r of a sequence before it has seen a key, with sums of what is tried of it.
template <class Row>
__device__ void begin_row(Row& row, int64_t r, const SampledSequence& sequence, const SampleArrays& a,
                          const SampleShape& s) {
  row = {};
  static_cast<TileRow&>(row) = row_of(r, sequence, a, s);
  for (LogSum& sum : row.rounded) sum = row.exact;
}

/// A tile of rows and what of the ladder is tried of it. blockIdx.x counts the walks of a tile, then the tiles.
struct TileWalk {
  int64_t first_row;
  Slots slots;
};
__device__ inline TileWalk walk_of_block(const SampleShape& s) {
  const int walks = n_walks(s);
  return {int64_t{blockIdx.x} / walks * kRows, slots_of(static_cast<int>(blockIdx.x) % walks, s)};
}

/// Blocks (tile and walk, key-value head, sequence).
inline dim3 grid_of(const SampleShape& s, int64_t walks) {
  const int64_t tiles = n_blocks(s.most_rows * (s.n_heads / s.n_kv_heads), kRows);
  return dim3(n_blocks(tiles * walks, 1), n_blocks(s.n_kv_heads, 1), n_blocks(s.n_sequences, 1));
}

/// f<kColumns>(): as many columns of values as a block works on at a time.
template <class F>
void with_columns(const SampleShape& s, F f) {
  if (s.value_dim <= 64)
    f.template operator()<64>();
  else
    f.template operator()<128>();
}

/// The last key that any row sees.
template <class Row>
__device__ int last_key_of(const Row* rows) {
  int last = 0;
  for (int r = 0; r < kRows; ++r) last = rows[r].there && rows[r].last_key > last ? rows[r].last_key : last;
  return last;
}

/// Rungs of keys, or values, that some row of the tile tries.
struct Rungs {
  int n;
  bool tried[kTried];
  signed char list[kTried];
};

/// All threads of the block. site: of TileRow::lowest.
template <class Row>
__device__ void list_rungs(Rungs& rungs, const Row* rows, int site, const Slots& slots) {
  for (int i = static_cast<int>(threadIdx.x); i < kTried; i += kThreads) {
    bool tried = false;
    for (int r = 0; r < kRows; ++r)
      for (int slot = 0; slot < slots.n; ++slot)
        tried = tried || (rows[r].there && slots.rung(slot, rows[r].lowest[site]) == kLowestTried + i);
    rungs.tried[i] = tried;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    rungs.n = 0;
    for (int i = 0; i < kTried; ++i)
      if (rungs.tried[i]) rungs.list[rungs.n++] = static_cast<signed char>(kLowestTried + i);
  }
  __syncthreads();
}

// ---------------------------------------------------------------- tiles in shared memory

constexpr int kSlab = 32;  // dimensions of keys, or keys, that are in shared memory at once
constexpr int kRowSkew = kRows + 4, kKeySkew = kKeys + 4;  // rows there: still aligned for four floats

/// Rows of one key-value head.
template <class T>
struct HeadRows {
  const T* begin;
  int64_t stride, n;
  int width;
  __device__ float at(int64_t row, int column) const {
    return row < n && column < width ? widen(begin[row * stride + column]) : 0.0f;
  }
};

template <class T>
__device__ HeadRows<T> keys_of(const SampledSequence& sequence, const SampleShape& s) {
  return {static_cast<const T*>(sequence.key) + blockIdx.y * s.key_dim, s.n_kv_heads * s.key_dim, sequence.n_tokens,
          static_cast<int>(s.key_dim)};
}
template <class T>
__device__ HeadRows<T> values_of(const SampledSequence& sequence, const SampleShape& s) {
  return {static_cast<const T*>(sequence.value) + blockIdx.y * s.value_dim, s.n_kv_heads * s.value_dim,
          sequence.n_tokens, static_cast<int>(s.value_dim)};
}

struct alignas(16) KeySlab {
  float query[kSlab][kRowSkew];  // by dimension
  float key[kSlab][kKeySkew];
};
template <int kColumns>
struct alignas(16) ValueSlab {
  float value[kSlab][kColumns];  // by key
};
struct alignas(16) Probabilities {
  float p[kKeys][kRowSkew];
  __device__ void store(const float (&of_row)[4], int row, int key) {
    for (int j = 0; j < 4; ++j) p[key + j][row] = of_row[j];
  }
};

/// The query of a row as it is.
struct AsItIs {
  template <class Row>
  __device__ float operator()(float x, const Row&) const {
    return x;
  }
};

// ---------------------------------------------------------------- keys

/// Products of the thread's two rows, 2 (thread / 16) and the next, and four keys, 4 (thread % 16) and on, with keys
/// rounded, and of_query(x, row) in place of a row's x.
template <class T, class Row, class OfQuery>
__device__ void multiply_keys(float (&dot)[2][4], KeySlab& slab, const T* q, const Row* rows, const HeadRows<T>& keys,
                              int64_t key0, const Rounding& rounding, const OfQuery& of_query) {
  const int thread = static_cast<int>(threadIdx.x), d = thread % kSlab;
  const int row = thread / kKeyThreads * 2, key = thread % kKeyThreads * 4;
  for (auto& of_row : dot)
    for (float& x : of_row) x = 0.0f;
  for (int d0 = 0; d0 < keys.width; d0 += kSlab) {
    __syncthreads();  // the slab before has been read
    for (int r = thread / kSlab; r < kRows; r += kThreads / kSlab)
      slab.query[d][r] = rows[r].there && d0 + d < keys.width
                             ? of_query(widen(q[rows[r].query * keys.width + d0 + d]), rows[r])
                             : 0.0f;
    for (int j = thread / kSlab; j < kKeys; j += kThreads / kSlab) slab.key[d][j] = rounding(keys.at(key0 + j, d0 + d));
    __syncthreads();
#pragma unroll 8
    for (int i = 0; i < kSlab; ++i) {
      const auto k = *reinterpret_cast<const Pack<float, 4>*>(&slab.key[i][key]);
      const auto x = *reinterpret_cast<const Pack<float, 2>*>(&slab.query[i][row]);
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int j = 0; j < 4; ++j) dot[r][j] = fmaf(x.values[r], k.values[j], dot[r][j]);
    }
  }
}

/// Products -> logits, -inf for what a row does not see.
__device__ inline void to_logits(float (&x)[4], const TileRow& row, int64_t key, const SampleShape& s) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float logit = x[j] * s.scale, capped = s.softcap > 0.0f ? s.softcap * tanhf(logit / s.softcap) : logit;
    x[j] = row.there && key + j >= row.first_key && key + j <= row.last_key ? capped : -INFINITY;
  }
}

/// One thread of a row keeps its state.
__device__ inline bool keeps_row() { return threadIdx.x % kKeyThreads == 0; }

/// Of the row's keys in this block.
__device__ inline float largest(const float (&x)[4]) {
  const float top = fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3]));
  return warp_reduce<kKeyThreads>(top, Maximum());
}

/// Logits -> probabilities below the new maximum.
__device__ inline void weigh(float (&p)[4], const float (&logits)[4], LogSum& sum, float& factor) {
  const float next = fmaxf(sum.maximum, largest(logits)), shrinks = below(sum.maximum, next);
  float total = 0.0f;
#pragma unroll
  for (int j = 0; j < 4; ++j) total += p[j] = below(logits[j], next);
  total = warp_reduce<kKeyThreads>(total, Sum());
  __syncwarp(neighbouring_lanes<kKeyThreads>());  // all have read the maximum
  if (!keeps_row()) return;
  sum = {next, sum.total * shrinks + total};
  factor = shrinks;
}

/// Logits l' beside the exact ones, of the row's keys in this block: maximum, sum of exponentials below it, Σ p (l -
/// l').
struct Compared {
  float maximum, total, moved;
};

__device__ inline Compared compared(const float (&logits)[4], const float (&others)[4], const float (&p)[4]) {
  const float top = largest(others);
  float total = 0.0f, moved = 0.0f;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    total += below(others[j], top);
    if (p[j] != 0.0f) moved += p[j] * (logits[j] - others[j]);
  }
  return {top, warp_reduce<kKeyThreads>(total, Sum()), warp_reduce<kKeyThreads>(moved, Sum())};
}

// ---------------------------------------------------------------- values

/// kColumns columns of 32 rows: a thread has four neighbouring columns of kOwnRows rows.
template <int kColumns>
struct ValueTile {
  static constexpr int kColumnThreads = kColumns / 4, kOwnRows = kRows * kColumnThreads / kThreads;
  float sums[1 + kSlots][kOwnRows][4];

  static __device__ int first_row() { return static_cast<int>(threadIdx.x) / kColumnThreads * kOwnRows; }
  static __device__ int first_column() { return static_cast<int>(threadIdx.x) % kColumnThreads * 4; }
};

/// Products of probabilities [key, row] and values, or, where these are rounded, the changes of values.
template <int kColumns, class T>
__device__ void multiply_values(float (&product)[ValueTile<kColumns>::kOwnRows][4], ValueSlab<kColumns>& slab,
                                const Probabilities& p, const HeadRows<T>& values, int64_t key0, int column0,
                                const Rounding& rounding) {
  using Tile = ValueTile<kColumns>;
  const int thread = static_cast<int>(threadIdx.x), row = Tile::first_row(), column = Tile::first_column();
  for (auto& of_row : product)
    for (float& x : of_row) x = 0.0f;
  for (int j0 = 0; j0 < kKeys; j0 += kSlab) {
    __syncthreads();  // the slab before has been read, the probabilities are there
    for (int i = thread; i < kSlab * kColumns; i += kThreads) {
      const float x = values.at(key0 + j0 + i / kColumns, column0 + i % kColumns);
      slab.value[i / kColumns][i % kColumns] = rounding.scale == 0.0f ? x : rounding(x) - x;
    }
    __syncthreads();
#pragma unroll 4
    for (int j = 0; j < kSlab; ++j) {
      const auto v = *reinterpret_cast<const Pack<float, 4>*>(&slab.value[j][column]);
      const auto x = *reinterpret_cast<const Pack<float, Tile::kOwnRows>*>(&p.p[j0 + j][row]);
#pragma unroll
      for (int r = 0; r < Tile::kOwnRows; ++r)
#pragma unroll
        for (int c = 0; c < 4; ++c) product[r][c] = fmaf(x.values[r], v.values[c], product[r][c]);
    }
  }
}

/// |y|_w² of four columns of a row, summed over all columns of the tile; zeros beyond the width.
template <int kColumns>
__device__ float weighted_square(const float (&y)[4], const TileRow& row, const SampleArrays& a, const SampleShape& s,
                                 int column) {
  const float* norms = a.column_norms + row.figures % s.n_heads * s.value_dim;
  float squares = 0.0f;
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    const float weighted = column + c < s.value_dim ? y[c] * norms[column + c] : 0.0f;
    squares += weighted * weighted;
  }
  return warp_reduce<ValueTile<kColumns>::kColumnThreads>(squares, Sum());
}

}  // namespace kvcal::cuda
