// What is tried of thorough rows of sampled attention alone (ops/attention_sample.h): their rounded query, and what
// rounded keys do to their output. f32, tiles as in attention_sample.cu, whose rows these are once more: one in four.
#include "kernels/device/sample_tile.cuh"
#include "kernels/runtime/launch.h"
#include "kernels/sample_tiles.h"

namespace kvcal::cuda {
namespace {

// ---------------------------------------------------------------- queries

/// With its query rounded at every rung that it tries.
struct QueryRow : ThoroughRow {
  LogSum rounded[kMostQueryRungs];
  float moved[kMostQueryRungs];  // Σ p (l - l') below exact.maximum
};

/// The query at the i-th rung that its row tries.
struct RoundedQuery {
  int i;
  SampleFormat format;
  __device__ float operator()(float x, const QueryRow& row) const { return rounding_at(row.tried.list[i], format)(x); }
};

/// The thread's two rows and four keys of a block: exact logits and what they weigh, then those of n rungs.
__device__ inline void try_queries(QueryRow* rows, KeySlab& slab, const float* q, const HeadRows<float>& keys,
                                   int64_t key0, const SampleShape& s, int n) {
  const int thread = static_cast<int>(threadIdx.x), row0 = thread / kKeyThreads * 2, key = thread % kKeyThreads * 4;
  float logits[2][4], p[2][4], others[2][4];
  multiply_keys(logits, slab, q, rows, keys, key0, Rounding{}, AsItIs{});
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    QueryRow& row = rows[row0 + r];
    to_logits(logits[r], row, key0 + key, s);
    weigh(p[r], logits[r], row.exact, row.factor);
    if (keeps_row())
      for (int i = 0; i < n; ++i) row.moved[i] *= row.factor;
  }
  for (int i = 0; i < n; ++i) {
    multiply_keys(others, slab, q, rows, keys, key0, Rounding{}, RoundedQuery{i, s.format});
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      QueryRow& row = rows[row0 + r];
      to_logits(others[r], row, key0 + key, s);
      const Compared found = compared(logits[r], others[r], p[r]);
      if (!keeps_row() || found.maximum == -INFINITY) continue;
      row.rounded[i] = joined(row.rounded[i], found.maximum, found.total);
      row.moved[i] += found.moved;
    }
  }
}

/// Block (tile of thorough rows, key-value head, sequence): (1 + rungs) key_dim fmaf for a row and key.
__global__ void __launch_bounds__(kThreads) sample_queries_kernel(SampleArrays a, SampleShape s) {
  const SampledSequence sequence = a.sequences[blockIdx.z];
  const int64_t first_row = int64_t{blockIdx.x} * kRows;
  if (!has_row(sequence, first_row, s)) return;
  KVCAL_SHARED(QueryRow, rows, kRows);
  KVCAL_SHARED(KeySlab, slab, 1);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kRows) {
    begin_row(rows[thread], first_row + thread, sequence, a, s);
    begin_thorough(rows[thread], rows[thread], s);
  }
  __syncthreads();
  const HeadRows<float> keys = keys_of<float>(sequence, s);
  const int last = last_key_of<kRows>(rows);
  int most = 0;
  for (int r = 0; r < kRows; ++r) most = max(most, rows[r].tried.n);
  for (int64_t key0 = rows[0].first_key / kKeys * kKeys; key0 <= last; key0 += kKeys)
    try_queries(rows, slab[0], static_cast<const float*>(a.q), keys, key0, s, most);
  __syncthreads();
  if (thread >= kRows || !rows[thread].there) return;
  const QueryRow& row = rows[thread];
  for (int slot = 0; slot < n_slots(s.query); ++slot) {
    const int i = row.tried.place_of(row.rungs[2].tried(s.query, slot));
    a.figures[row.figures * s.n_figures + s.query_divergence + slot] =
        divergence_of(row.moved[i], row.exact, row.rounded[i]);
  }
}

// ---------------------------------------------------------------- keys

/// With keys rounded at the rungs of this walk.
struct MovedRow : TileRow {
  LogSum rounded[kWalkRungs];
  float factors[kWalkRungs];  // as `factor`, of what is below rounded[i].maximum
};

/// Σ p v, below the exact maximum.
template <int kColumns>
__device__ void add_exact(ValueTile<kColumns>& tile, const float (&product)[ValueTile<kColumns>::kOwnRows][4],
                          const MovedRow* rows) {
  using Tile = ValueTile<kColumns>;
#pragma unroll
  for (int r = 0; r < Tile::kOwnRows; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c)
      tile.sums[0][r][c] = tile.sums[0][r][c] * rows[Tile::first_row() + r].factor + product[r][c];
}

/// Σ p' v of the k-th rung, below its own maximum.
template <int kColumns>
__device__ void add_rounded(ValueTile<kColumns>& tile, const float (&product)[ValueTile<kColumns>::kOwnRows][4],
                            const MovedRow* rows, int k) {
  using Tile = ValueTile<kColumns>;
#pragma unroll
  for (int r = 0; r < Tile::kOwnRows; ++r) {
    const MovedRow& row = rows[Tile::first_row() + r];
#pragma unroll
    for (int i = 0; i < kWalkRungs; ++i)
      if (i == k)
#pragma unroll
        for (int c = 0; c < 4; ++c) tile.sums[1 + i][r][c] = tile.sums[1 + i][r][c] * row.factors[i] + product[r][c];
  }
}

/// |y' - y|_w² of these columns: where no logit moves, y' has the bits of y.
template <int kColumns>
__device__ void add_changes(const ValueTile<kColumns>& tile, const MovedRow* rows, const Trials& trials,
                            const SampleArrays& a, const SampleShape& s, int column0) {
  using Tile = ValueTile<kColumns>;
#pragma unroll
  for (int r = 0; r < Tile::kOwnRows; ++r) {
    const MovedRow& row = rows[Tile::first_row() + r];
    const float inverse = 1.0f / row.exact.total;
#pragma unroll
    for (int i = 0; i < kWalkRungs; ++i) {
      const float rounded_inverse = 1.0f / row.rounded[i].total;
      float change[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) change[c] = tile.sums[1 + i][r][c] * rounded_inverse - tile.sums[0][r][c] * inverse;
      const float squares = weighted_square<kColumns>(change, row, a, s, column0 + Tile::first_column());
      if (Tile::first_column() != 0 || !row.there || i >= trials.n) continue;
      for_slots(row.rungs[0], trials.list[i], s, [&](int slot) {
        float& figure = a.figures[row.figures * s.n_figures + s.key_change + slot];
        figure = column0 == 0 ? squares : figure + squares;
      });
    }
  }
}

/// Block (tile of thorough rows, key-value head, sequence): (1 + rungs) (key_dim + value_dim) fmaf for a row
/// and key, as the plain figures, but with the logits made anew for each kColumns of values.
template <int kColumns>
__global__ void __launch_bounds__(kThreads, 1) sample_key_change_kernel(SampleArrays a, SampleShape s) {
  using Tile = ValueTile<kColumns>;
  const SampledSequence sequence = a.sequences[blockIdx.z];
  const int64_t first_row = int64_t{blockIdx.x} * kRows;
  if (!has_row(sequence, first_row, s)) return;
  KVCAL_SHARED(MovedRow, rows, kRows);
  KVCAL_SHARED(Rungs, rungs, 1);
  KVCAL_SHARED(KeySlab, key_slab, 1);
  KVCAL_SHARED(ValueSlab<kColumns>, value_slab, 1);
  KVCAL_SHARED(Probabilities, probabilities, 1);
  const int thread = static_cast<int>(threadIdx.x), row0 = thread / kKeyThreads * 2, key = thread % kKeyThreads * 4;
  const HeadRows<float> keys = keys_of<float>(sequence, s), values = values_of<float>(sequence, s);
  const auto* q = static_cast<const float*>(a.q);

  for (int first = 0, column0 = 0; first == 0 || first < rungs[0].n;) {
    __syncthreads();  // the rows' states have been read
    if (thread < kRows) begin_row(rows[thread], first_row + thread, sequence, a, s);
    __syncthreads();
    if (first == 0 && column0 == 0) list_rungs<kRows>(rungs[0], rows, 0, s);
    const Trials trials(rungs[0], first);
    const int last = last_key_of<kRows>(rows);
    Tile tile = {};
    for (int64_t key0 = rows[0].first_key / kKeys * kKeys; key0 <= last; key0 += kKeys) {
      float p[2][4], logits[2][4], product[Tile::kOwnRows][4];
      for (int k = -1; k < trials.n; ++k) {  // -1: keys as they are
        multiply_keys(logits, key_slab[0], q, rows, keys, key0,
                      k < 0 ? Rounding{} : rounding_at(trials.list[k], s.format), AsItIs{});
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          MovedRow& row = rows[row0 + r];
          to_logits(logits[r], row, key0 + key, s);
          weigh(p[r], logits[r], k < 0 ? row.exact : row.rounded[k], k < 0 ? row.factor : row.factors[k]);
          probabilities[0].store(p[r], row0 + r, key);
        }
        multiply_values<kColumns>(product, value_slab[0], probabilities[0], values, key0, column0, Rounding{});
        if (k < 0)
          add_exact(tile, product, rows);
        else
          add_rounded(tile, product, rows, k);
      }
    }
    __syncthreads();
    add_changes(tile, rows, trials, a, s, column0);
    column0 += kColumns;
    if (column0 < s.value_dim) continue;
    column0 = 0;
    first += kWalkRungs;
  }
}

void sample(const SampleArrays& a, const SampleShape& s, cudaStream_t stream) {
  launch(KVCAL_KERNEL(sample_queries_kernel), grid_of<kRows>(s), dim3(kThreads), 0, stream, a, s);
  const dim3 grid = grid_of<kRows>(s);
  with_columns(s, [&]<int kColumns>() {
    launch(KVCAL_KERNEL(sample_key_change_kernel<kColumns>), grid, dim3(kThreads), 0, stream, a, s);
  });
}

}  // namespace

void sample_thorough(DType t, const SampleArrays& arrays, const SampleShape& shape, cudaStream_t stream) {
  if (t != DType::BF16) return sample(arrays, shape, stream);
  sample_key_outputs(arrays, shape, stream);
  sample_query_logits(arrays, shape, stream);
}

}  // namespace kvcal::cuda
