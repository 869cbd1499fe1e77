// What the kernels of sampled attention know of their rows: a block has query rows of one key-value head, that is
// sampled positions with all query heads of the group, and walks over key blocks of 64 at absolute positions.
//
// A key block in which a row sees nothing changes nothing of it, so a row's figures do not depend on its tile.
#pragma once

#include "kernels/device/real.cuh"
#include "kernels/device/reduce.cuh"
#include "kernels/device/rung.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/grid.h"

namespace kvcal::cuda {

constexpr int kKeys = 64, kThreads = 256;
constexpr int kWalkRungs = 4;  // that one walk over the keys tries
constexpr int kMostBelow = 8;  // SampleRequest::rungs_below
constexpr int kLowestTried = kLeastRung - kMostBelow, kTried = kMostRung + 4 - kLowestTried + 1;

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
  int64_t query;           // of q: row of the batch · n_heads + head
  int64_t figures;         // of figures: sampled row · n_heads + head
  RungsOfRow rungs[3];     // of keys, of values, of the query
  const uint64_t* picked;  // words of the keys that it sees among those; or null
  bool there, thorough;
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
  row.thorough = sampled.thorough != 0;
  row.picked = a.picked.words ? a.picked.row(sampled.row, head) : nullptr;
  const int32_t* of_cache = a.alike + (index * s.n_kv_heads + blockIdx.y) * 2;
#pragma unroll
  for (int i = 0; i < 3; ++i)
    if (i < s.n_rungs)
      row.rungs[i] = {a.rungs[s.n_rungs * index + i], s.format == SampleFormat::Int8 ? kNoneAlike
                                                      : i < 2                        ? of_cache[i]
                                                                                     : a.query_alike[row.figures]};
  // A sink is a first key without a value, and rounded never.
  row.exact = a.sinks ? LogSum{a.sinks[head], 1.0f} : LogSum{-INFINITY, 0.0f};
  return row;
}

/// Whether it sees a key.
__device__ inline bool sees(const TileRow& row, int64_t key) {
  return key >= row.first_key && key <= row.last_key &&
         (!row.picked || (row.picked[key / kKeys] >> (key % kKeys) & 1) != 0);
}

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

/// Blocks (tile of kRows rows, key-value head, sequence).
template <int kRows>
dim3 grid_of(const SampleShape& s) {
  return dim3(n_blocks(s.most_rows * (s.n_heads / s.n_kv_heads), kRows), n_blocks(s.n_kv_heads, 1),
              n_blocks(s.n_sequences, 1));
}

/// The last key that any row sees.
template <int kRows, class Row>
__device__ int last_key_of(const Row* rows) {
  int last = 0;
  for (int r = 0; r < kRows; ++r) last = rows[r].there && rows[r].last_key > last ? rows[r].last_key : last;
  return last;
}

/// Whether some rung that a row tries clips what it sees, or rounds to whole numbers. site: of TileRow::rungs.
template <int kRows, class Row>
__device__ bool clips(const Row* rows, int site, const SampleShape& s) {
  bool some = s.cache.below > 0 || s.format == SampleFormat::Int8;
  for (int r = 0; r < kRows; ++r) some = some || (rows[r].there && rows[r].rungs[site].lowest > kRungOfOne);
  return some;
}

/// Rungs of keys, or values, that some row of the tile tries.
struct Rungs {
  int n;
  bool tried[kTried];
  signed char list[kTried];
};

/// All threads of the block. site: of TileRow::rungs, keys or values.
template <int kRows, class Row>
__device__ void list_rungs(Rungs& rungs, const Row* rows, int site, const SampleShape& s) {
  for (int i = static_cast<int>(threadIdx.x); i < kTried; i += kThreads) {
    bool tried = false;
    for (int r = 0; r < kRows; ++r)
      tried = tried || (rows[r].there && rows[r].rungs[site].tries(s.cache, kLowestTried + i));
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

/// Those of one walk.
struct Trials {
  const signed char* list;
  int n;

  __device__ Trials(const Rungs& all, int first) : list(all.list + first), n(min(all.n - first, kWalkRungs)) {}
};

/// f(slot) for each slot of the ladder of keys or values that a row tries at a rung.
template <class F>
__device__ void for_slots(const RungsOfRow& row, int rung, const SampleShape& s, F f) {
  for (int slot = 0; slot < n_slots(s.cache); ++slot)
    if (row.tried(s.cache, slot) == rung) f(slot);
}

constexpr int kMostQueryRungs = RungLadder{kMostBelow, 14}.size();

/// What a row tries of its query, each rung once; 1.0 behind the last.
struct QueryRungs {
  int n;
  signed char list[kMostQueryRungs];

  /// n where it is not among them.
  __device__ int place_of(int rung) const {
    int i = 0;
    while (i < n && list[i] != rung) ++i;
    return i;
  }
};

/// A row whose query is tried.
struct ThoroughRow : TileRow {
  QueryRungs tried;
};
/// In shared memory.
__device__ inline void begin_thorough(ThoroughRow& row, const TileRow& known, const SampleShape& s) {
  static_cast<TileRow&>(row) = known;
  row.tried = {};
  for (int slot = 0; known.there && slot < n_slots(s.query); ++slot)
    if (const int rung = known.rungs[2].tried(s.query, slot); row.tried.place_of(rung) == row.tried.n)
      row.tried.list[row.tried.n++] = static_cast<signed char>(rung);
}

}  // namespace kvcal::cuda
