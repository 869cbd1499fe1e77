// Attention of sampled rows with keys, or values, rounded at rungs of a ladder (ops/attention_sample.h), for f32; bf16
// is sample_logits.cu's and sample_outputs.cu's.
//
// A block walks over the keys of its tile of rows (device/sample_tile.cuh) once for each four rungs that any of the 32
// rows tries. Tiles of keys and values are rounded on their way to shared memory, once for each rung. A walk costs
// (1 + rungs) (key_dim + value_dim) fmaf for a row and key, and makes the exact logits again.
#include "kernels/device/sample_tile.cuh"
#include "kernels/runtime/launch.h"
#include "kernels/sample_tiles.h"

namespace kvcal::cuda {
namespace {

/// With what rounding at the rungs of this walk does to it.
struct TriedRow : TileRow {
  LogSum rounded[kWalkRungs];
  float moved[kWalkRungs];  // Σ p (l - l') below exact.maximum
};

/// Logits with keys rounded at the i-th rung, beside the exact ones.
__device__ inline void compare(const float (&logits)[4], const float (&others)[4], const float (&p)[4], TriedRow& row,
                               int i) {
  const Compared found = compared(logits, others, p);
  if (!keeps_row() || found.maximum == -INFINITY) return;
  row.rounded[i] = joined(row.rounded[i], found.maximum, found.total);
  row.moved[i] += found.moved;
}

/// One key block's part of all sums: Σ p v (in the first walk), and by rung Σ p (v' - v).
template <int kColumns>
__device__ void add_values(ValueTile<kColumns>& tile, ValueSlab<kColumns>& slab, const Probabilities& p,
                           const TriedRow* rows, const Trials& trials, bool first_walk, const HeadRows<float>& values,
                           int64_t key0, int column0, SampleFormat format) {
  using Tile = ValueTile<kColumns>;
  const int row0 = Tile::first_row();
  float product[Tile::kOwnRows][4] = {};
  if (first_walk)
    multiply_values<kColumns>(product, slab, p, values, key0, column0, Rounding{});
  else
    __syncthreads();  // the rows' factors are there
#pragma unroll
  for (int r = 0; r < Tile::kOwnRows; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c) {
#pragma unroll
      for (int i = 0; i <= kWalkRungs; ++i) tile.sums[i][r][c] *= rows[row0 + r].factor;
      tile.sums[0][r][c] += product[r][c];
    }
  for (int k = 0; k < trials.n; ++k) {
    multiply_values<kColumns>(product, slab, p, values, key0, column0, rounding_at(trials.list[k], format));
#pragma unroll
    for (int r = 0; r < Tile::kOwnRows; ++r)
#pragma unroll
      for (int i = 0; i < kWalkRungs; ++i)
        if (i == k)
#pragma unroll
          for (int c = 0; c < 4; ++c) tile.sums[1 + i][r][c] += product[r][c];
  }
}

/// Adds |x / total|_w² of these columns to the rows' figures.
template <int kColumns>
__device__ void add_squares(const ValueTile<kColumns>& tile, const TriedRow* rows, const Trials& trials,
                            bool first_walk, const SampleArrays& a, const SampleShape& s, int column0) {
  using Tile = ValueTile<kColumns>;
  const int column = column0 + Tile::first_column();
#pragma unroll
  for (int r = 0; r < Tile::kOwnRows; ++r) {
    const TriedRow& row = rows[Tile::first_row() + r];
    const float inverse = 1.0f / row.exact.total;
#pragma unroll
    for (int i = 0; i <= kWalkRungs; ++i) {
      float y[4];
#pragma unroll
      for (int c = 0; c < 4; ++c) y[c] = tile.sums[i][r][c] * inverse;
      const float squares = weighted_square<kColumns>(y, row, a, s, column);
      if (Tile::first_column() != 0 || !row.there) continue;
      float* figures = a.figures + row.figures * s.n_figures;
      if (i == 0 && first_walk) figures[s.output] += squares;
      if (i > 0 && i <= trials.n)
        for_slots(row.rungs[1], trials.list[i - 1], s, [&](int slot) { figures[s.value_change + slot] += squares; });
    }
  }
}

/// Block (tile of query rows, key-value head, sequence). Value columns come kColumns at a time; logits are made anew
/// for each time, those of rounded keys at the first only. figures are zeros before.
template <int kColumns>
__global__ void __launch_bounds__(kThreads, 1) sample_attention_kernel(SampleArrays a, SampleShape s) {
  const SampledSequence sequence = a.sequences[blockIdx.z];
  const int64_t first_row = int64_t{blockIdx.x} * kRows;
  if (!has_row(sequence, first_row, s)) return;
  KVCAL_SHARED(TriedRow, rows, kRows);
  KVCAL_SHARED(Rungs, rungs, 2);
  KVCAL_SHARED(KeySlab, key_slab, 1);
  KVCAL_SHARED(ValueSlab<kColumns>, value_slab, 1);
  KVCAL_SHARED(Probabilities, probabilities, 1);
  const int thread = static_cast<int>(threadIdx.x), row0 = thread / kKeyThreads * 2, key = thread % kKeyThreads * 4;
  const HeadRows<float> keys = keys_of<float>(sequence, s), values = values_of<float>(sequence, s);
  const auto* q = static_cast<const float*>(a.q);

  for (int first = 0, column0 = 0; first == 0 || first < max(rungs[0].n, rungs[1].n);) {
    __syncthreads();  // the rows' states have been read
    if (thread < kRows) begin_row(rows[thread], first_row + thread, sequence, a, s);
    __syncthreads();
    if (first == 0 && column0 == 0)
      for (int site = 0; site < 2; ++site) list_rungs<kRows>(rungs[site], rows, site, s);
    const Trials key_trials(rungs[0], first), value_trials(rungs[1], first);
    const int last = last_key_of<kRows>(rows);
    ValueTile<kColumns> tile = {};
    for (int64_t key0 = rows[0].first_key / kKeys * kKeys; key0 <= last; key0 += kKeys) {
      float logits[2][4], p[2][4];
      multiply_keys(logits, key_slab[0], q, rows, keys, key0, Rounding{}, AsItIs{});
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        TriedRow& row = rows[row0 + r];
        to_logits(logits[r], row, key0 + key, s);
        weigh(p[r], logits[r], row.exact, row.factor);
        if (keeps_row())
          for (float& moved : row.moved) moved *= row.factor;
        probabilities[0].store(p[r], row0 + r, key);
      }
      for (int k = 0; column0 == 0 && k < key_trials.n; ++k) {
        float others[2][4];
        multiply_keys(others, key_slab[0], q, rows, keys, key0, rounding_at(key_trials.list[k], s.format), AsItIs{});
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          to_logits(others[r], rows[row0 + r], key0 + key, s);
          compare(logits[r], others[r], p[r], rows[row0 + r], k);
        }
      }
      add_values<kColumns>(tile, value_slab[0], probabilities[0], rows, value_trials, first == 0, values, key0, column0,
                           s.format);
    }
    __syncthreads();
    add_squares<kColumns>(tile, rows, value_trials, first == 0, a, s, column0);
    if (column0 == 0 && thread < kRows && rows[thread].there) {
      const TriedRow& row = rows[thread];
      float* figures = a.figures + row.figures * s.n_figures;
      for (int i = 0; i < key_trials.n; ++i) {
        const float divergence = divergence_of(row.moved[i], row.exact, row.rounded[i]);
        for_slots(row.rungs[0], key_trials.list[i], s,
                  [&](int slot) { figures[s.key_divergence + slot] = divergence; });
      }
      for (int i = s.query_divergence; first == 0 && i < s.n_figures; ++i)  // until the row is found thorough
        figures[i] = -1.0f;
    }
    column0 += kColumns;
    if (column0 < s.value_dim) continue;
    column0 = 0;
    first += kWalkRungs;
  }
}

void sample(const SampleArrays& a, const SampleShape& s, cudaStream_t stream) {
  const dim3 grid = grid_of<kRows>(s);
  with_columns(s, [&]<int kColumns>() {
    launch(KVCAL_KERNEL(sample_attention_kernel<kColumns>), grid, dim3(kThreads), 0, stream, a, s);
  });
}

}  // namespace

void sample_attention(DType t, const SampleArrays& arrays, const SampleShape& shape, cudaStream_t stream) {
  if (t != DType::BF16) return sample(arrays, shape, stream);
  sample_key_logits(arrays, shape, stream);
  sample_value_outputs(arrays, shape, stream);
}

}  // namespace kvcal::cuda
