// Logits of sampled attention on tensor cores: query rows and blocks of 64 keys come to shared memory 64 dimensions at
// a time, the next while these are multiplied. Rounding is done in registers, on its way to a product, for all that is
// tried.
#pragma once

#include "kernels/device/mma_tile.cuh"
#include "kernels/device/sample_rows.cuh"

namespace kvcal::cuda {

constexpr int kSlab = 64, kSlabRow = kSlab + 8;  // dimensions; the 8 rows of a matrix lie in different banks
constexpr int kWarps = kThreads / kWarp;
constexpr float kLog2E = 1.44269504f;

/// Begins to copy eight columns of a row; zeros where it has none.
__device__ inline void copy_columns(bf16* to, const bf16* row, bool there, int column, int width) {
  if (width % 8 == 0) {  // then all rows are aligned
    const bool inside = there && column < width;
    copy_async(to, inside ? row + column : row, inside ? 16 : 0);
    return;
  }
  for (int c = 0; c < 8; ++c) to[c] = there && column + c < width ? row[column + c] : bf16{0};
}

template <int kRows>
struct alignas(16) Slab {
  bf16 query[kRows * kSlabRow], key[kKeys * kSlabRow];
};

/// Begins to copy dimensions [d0, d0 + 64).
template <int kRows, class Row>
__device__ void load_slab(Slab<kRows>& to, const bf16* q, const Row* rows, const HeadRows<bf16>& keys, int64_t key0,
                          int d0) {
  constexpr int kPacks = kSlab / 8;
  const int column = static_cast<int>(threadIdx.x) % kPacks * 8;
  for (int r = static_cast<int>(threadIdx.x) / kPacks; r < kRows + kKeys; r += kThreads / kPacks) {
    const int key = r - kRows;
    if (key < 0)
      copy_columns(to.query + r * kSlabRow + column, q + rows[r].query * keys.width, rows[r].there, d0 + column,
                   keys.width);
    else
      copy_columns(to.key + key * kSlabRow + column, keys.begin + (key0 + key < keys.n ? key0 + key : 0) * keys.stride,
                   key0 + key < keys.n, d0 + column, keys.width);
  }
  commit_copies();
}

/// Of a warp's kRowTiles times 16 rows and kKeyTiles times 16 keys 16 dimensions, as multiply_add takes them.
template <int kRowTiles, int kKeyTiles>
struct TileOperands {
  uint32_t query[kRowTiles][4], key[kKeyTiles][4];
};
template <int kRowTiles, int kKeyTiles>
__device__ void multiply(float (&dots)[kRowTiles][2 * kKeyTiles][4], const TileOperands<kRowTiles, kKeyTiles>& x) {
#pragma unroll
  for (int m = 0; m < kRowTiles; ++m)
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) multiply_add_pair(dots[m][2 * n], dots[m][2 * n + 1], x.query[m], x.key[n]);
}

/// Adds a slab's products of rows [row0, ..) and keys [key, ..): as they are, and with each trial's operands.
/// trial.round<kClips>(i, x) rounds x as the i-th of them does, or returns false where there are no more.
template <int kTrials, bool kClips, int kRowTiles, int kKeyTiles, int kRows, class Trial>
__device__ void multiply_slab(float (&dots)[1 + kTrials][kRowTiles][2 * kKeyTiles][4], const Slab<kRows>& slab,
                              int row0, int key, const Trial& trial) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const bf16* query_row = slab.query + (row0 + lane % 16) * kSlabRow + lane / 16 * 8;
  const bf16* key_row = slab.key + (key + b_row(lane)) * kSlabRow + b_column(lane);
#pragma unroll
  for (int d = 0; d < kSlab; d += 16) {
    TileOperands<kRowTiles, kKeyTiles> x;
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) load_matrices(x.query[m], query_row + 16 * m * kSlabRow + d);
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n) load_matrices(x.key[n], key_row + 16 * n * kSlabRow + d);
    multiply<kRowTiles, kKeyTiles>(dots[0], x);
#pragma unroll
    for (int i = 0; i < kTrials; ++i) {
      TileOperands<kRowTiles, kKeyTiles> rounded = x;
      if (trial.template round<kClips>(i, rounded)) multiply<kRowTiles, kKeyTiles>(dots[1 + i], rounded);
    }
  }
}

/// Nothing is rounded.
struct NoTrial {
  static constexpr bool clips = false;
  template <bool kClips, class TileOperands>
  __device__ bool round(int, TileOperands&) const {
    return false;
  }
};

/// The rungs of a walk.
struct RungTrials {
  PairRounding at_one;
  bool clips;
  int n, rungs[kWalkRungs];

  __device__ RungTrials(const Trials& trials, bool clips_some, SampleFormat format)
      : at_one(pair_rounding(format)), clips(clips_some), n(trials.n) {
#pragma unroll
    for (int i = 0; i < kWalkRungs; ++i) rungs[i] = i < n ? trials.list[i] : kRungOfOne;
  }
  __device__ PairRounding rounding(int i) const { return at_one.above(rungs[i]); }

  /// Of keys.
  template <bool kClips, int kRowTiles, int kKeyTiles>
  __device__ bool round(int i, TileOperands<kRowTiles, kKeyTiles>& x) const {
    if (i >= n) return false;
    const PairRounding at_rung = rounding(i);
#pragma unroll
    for (auto& tile : x.key)
#pragma unroll
      for (uint32_t& pair : tile) pair = at_rung.template round<kClips>(pair);
    return true;
  }
};

/// Walks over the key blocks of which rows see something. begin(key0) as a block begins; end(key0, dots) with its
/// products, those of multiply_slab(). All threads of the block, behind a barrier.
template <int kTrials, int kRowTiles, int kKeyTiles, int kRows, class Row, class Trial, class Begin, class End>
__device__ void walk_keys(Slab<kRows> (&slabs)[2], const bf16* q, const Row* rows, const HeadRows<bf16>& keys, int row0,
                          int key, const Trial& trial, const Begin& begin, const End& end) {
  const int last = last_key_of<kRows>(rows);
  float dots[1 + kTrials][kRowTiles][2 * kKeyTiles][4] = {};
  int64_t key0 = rows[0].first_key / kKeys * kKeys;
  int d0 = 0, stage = 0;
  load_slab(slabs[0], q, rows, keys, key0, 0);
  for (; key0 <= last; stage ^= 1) {
    const bool ends = d0 + kSlab >= keys.width;
    const int64_t next_key = ends ? key0 + kKeys : key0;
    const int next_d = ends ? 0 : d0 + kSlab;
    wait_copies<0>();
    __syncthreads();  // the slab is there, and nobody needs the one before
    if (next_key <= last) load_slab(slabs[stage ^ 1], q, rows, keys, next_key, next_d);
    if (d0 == 0) begin(key0);
    if (trial.clips)
      multiply_slab<kTrials, true, kRowTiles, kKeyTiles>(dots, slabs[stage], row0, key, trial);
    else
      multiply_slab<kTrials, false, kRowTiles, kKeyTiles>(dots, slabs[stage], row0, key, trial);
    if (ends) {
      end(key0, dots);
#pragma unroll
      for (auto& form : dots)
#pragma unroll
        for (auto& tiles : form)
#pragma unroll
          for (auto& tile : tiles)
#pragma unroll
            for (float& x : tile) x = 0.0f;
    }
    key0 = next_key;
    d0 = next_d;
  }
}

/// Products of a row with keys key, key + 1, key + 8, key + 9, ... -> logits as exponents of two, -inf where it does
/// not see the key.
template <int kForms, int kCount>
__device__ void to_exponents(float (&x)[kForms][kCount], int key, const TileRow& row, const SampleShape& s) {
  const auto each = [&](auto f) {
#pragma unroll
    for (auto& form : x)
#pragma unroll
      for (int j = 0; j < kCount; ++j) f(form[j], j / 2 * 8 + j % 2);
  };
  const float factor = s.scale * kLog2E;
  if (s.softcap > 0.0f)
    each([&](float& dot, int) { dot = s.softcap * tanhf(dot * s.scale / s.softcap) * kLog2E; });
  else
    each([&](float& dot, int) { dot *= factor; });
  const int block = key / kKeys, first = row.first_key - block * kKeys, last = row.last_key - block * kKeys;
  if (first <= 0 && last >= kKeys - 1 && !row.picked) return;  // most blocks are seen whole
  const uint64_t seen = seen_keys(first, last, row.picked, block) >> (key % kKeys);
  each([&](float& exponent, int at) {
    if ((seen >> at & 1) == 0) exponent = -INFINITY;
  });
}

/// Sum of powers of two. Its maximum, and what one of them is worth, stand in a row's figures until the kernels that
/// need them have written these: two places for a sum.
struct KeptSum {
  float maximum, inverse;
};
struct KeptAt {
  int maximum, inverse;
  __device__ void keep(float* figures, float top, float total) const {
    figures[maximum] = top;
    figures[inverse] = 1.0f / total;
  }
  __device__ KeptSum read(const float* figures) const { return {figures[maximum], figures[inverse]}; }
};
/// For values.
__device__ inline KeptAt exact_kept(const SampleShape& s) { return {s.output, s.value_change}; }
/// Of thorough rows, for keys: the query's figures, at least two more than those of the cache, come last.
__device__ inline KeptAt thorough_kept(const SampleShape& s) { return {s.query_divergence, s.query_divergence + 1}; }
__device__ inline KeptAt rounded_kept(const SampleShape& s, int slot) {
  return {s.key_change + slot, s.query_divergence + 2 + slot};
}

}  // namespace kvcal::cuda
