// Tiles of sampled attention in f32: 32 query rows and 64 keys with an online softmax; 8 or 16 fmaf to two reads of
// shared memory.
#pragma once

#include "kernels/device/sample_rows.cuh"

namespace kvcal::cuda {

constexpr int kRows = 32;
constexpr int kKeyThreads = 16;  // that share a row in multiply_keys()

// ---------------------------------------------------------------- walks

/// Row r of a sequence before it has seen a key, with sums of what is tried of it.
template <class Row>
__device__ void begin_row(Row& row, int64_t r, const SampledSequence& sequence, const SampleArrays& a,
                          const SampleShape& s) {
  row = {};
  static_cast<TileRow&>(row) = row_of(r, sequence, a, s);
  for (LogSum& sum : row.rounded) sum = row.exact;
}

/// f<kColumns>(): as many columns of values as a block works on at a time.
template <class F>
void with_columns(const SampleShape& s, F f) {
  if (s.value_dim <= 64)
    f.template operator()<64>();
  else
    f.template operator()<128>();
}

// ---------------------------------------------------------------- tiles in shared memory

constexpr int kSlab = 32;  // dimensions of keys, or keys, that are in shared memory at once
constexpr int kRowSkew = kRows + 4, kKeySkew = kKeys + 4;  // rows there: still aligned for four floats

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
template <class Row, class OfQuery>
__device__ void multiply_keys(float (&dot)[2][4], KeySlab& slab, const float* q, const Row* rows,
                              const HeadRows<float>& keys, int64_t key0, const Rounding& rounding,
                              const OfQuery& of_query) {
  const int thread = static_cast<int>(threadIdx.x), d = thread % kSlab;
  const int row = thread / kKeyThreads * 2, key = thread % kKeyThreads * 4;
  for (auto& of_row : dot)
    for (float& x : of_row) x = 0.0f;
  for (int d0 = 0; d0 < keys.width; d0 += kSlab) {
    __syncthreads();  // the slab before has been read
    for (int r = thread / kSlab; r < kRows; r += kThreads / kSlab)
      slab.query[d][r] =
          rows[r].there && d0 + d < keys.width ? of_query(q[rows[r].query * keys.width + d0 + d], rows[r]) : 0.0f;
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
    x[j] = row.there && sees(row, key + j) ? capped : -INFINITY;
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
  float sums[1 + kWalkRungs][kOwnRows][4];

  static __device__ int first_row() { return static_cast<int>(threadIdx.x) / kColumnThreads * kOwnRows; }
  static __device__ int first_column() { return static_cast<int>(threadIdx.x) % kColumnThreads * 4; }
};

/// Products of probabilities [key, row] and values, or, where these are rounded, the changes of values.
template <int kColumns>
__device__ void multiply_values(float (&product)[ValueTile<kColumns>::kOwnRows][4], ValueSlab<kColumns>& slab,
                                const Probabilities& p, const HeadRows<float>& values, int64_t key0, int column0,
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
