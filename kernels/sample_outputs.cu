// Sampled attention of bf16 on tensor cores (ops/attention_sample.h): what rounding of values, and of keys, does to the
// output of a head. Behind sample_logits.cu, whose sums make probabilities of logits at once: nothing is rescaled.
//
// A block has 32 rows and walks over the keys once for each four rungs that some row tries and each kColumns of values.
// Eight warps share logits, 16 rows and 16 keys each; their weights meet in shared memory, and each warp multiplies all
// of them with its own columns. Weights are rounded to bf16 where they meet values, as the CPU's are.
#include "kernels/device/sample_slabs.cuh"
#include "kernels/device/shared.cuh"
#include "kernels/runtime/launch.h"
#include "kernels/sample_tiles.h"

namespace kvcal::cuda {
namespace {

constexpr int kRows = 32, kRowTiles = kRows / 16;
constexpr int kWeightRow = kKeys + 8;
constexpr int kKeyWarps = 4;  // that share a row of logits

// ---------------------------------------------------------------- what is rounded

/// Values: p (v' - v), and p v.
struct ValueForm {
  static constexpr int kSite = 1, kKeyTrials = 0, kWeights = 1, kSums = 1 + kWalkRungs;

  static __device__ int figure(const SampleShape& s) { return s.value_change; }
  static __device__ NoTrial key_trials(const RungTrials&) { return {}; }
  static __device__ KeptAt exact(const SampleShape& s) { return exact_kept(s); }

  /// The operand of values for each sum.
  template <bool kClips>
  static __device__ bool operand(int i, const RungTrials& trials, const uint32_t (&values)[4], uint32_t (&x)[4]) {
    if (i > trials.n) return false;
#pragma unroll
    for (int r = 0; r < 4; ++r) x[r] = i == 0 ? values[r] : trials.rounding(i - 1).template change<kClips>(values[r]);
    return true;
  }
  static __device__ int weights_of(int) { return 0; }
  static __device__ int trial_of(int sum) { return sum - 1; }  // -1: nothing rounded
};

/// Keys: (p' - p) v.
struct KeyForm {
  static constexpr int kSite = 0, kKeyTrials = kWalkRungs, kWeights = kWalkRungs, kSums = kWalkRungs;

  static __device__ int figure(const SampleShape& s) { return s.key_change; }
  static __device__ const RungTrials& key_trials(const RungTrials& trials) { return trials; }
  static __device__ KeptAt exact(const SampleShape& s) { return thorough_kept(s); }

  template <bool kClips>
  static __device__ bool operand(int i, const RungTrials& trials, const uint32_t (&values)[4], uint32_t (&x)[4]) {
    if (i >= trials.n) return false;
#pragma unroll
    for (int r = 0; r < 4; ++r) x[r] = values[r];
    return true;
  }
  static __device__ int weights_of(int sum) { return sum; }
  static __device__ int trial_of(int sum) { return sum; }
};

/// A row with what makes probabilities of its logits; inverse zero where it does not try a rung.
struct OutputRow : TileRow {
  KeptSum sum, rounded[kWalkRungs];
};

template <class Form, int kColumns>
struct Shared {
  static constexpr int kValueRow = kColumns + 8;
  Slab<kRows> slabs[2];
  bf16 values[kKeys * kValueRow];
  alignas(16) bf16 weights[Form::kWeights][kRows * kWeightRow];
  float squares[kWarps][Form::kSums][kRows];
  OutputRow rows[kRows];
  Rungs rungs;
};

// ---------------------------------------------------------------- a key block

/// Values of a key block, kColumns of them.
template <int kColumns>
__device__ void load_values(bf16* to, const HeadRows<bf16>& values, int64_t key0, int column0) {
  constexpr int kPacks = kColumns / 8;
  for (int i = static_cast<int>(threadIdx.x); i < kKeys * kPacks; i += kThreads) {
    const int key = i / kPacks, column = i % kPacks * 8;
    const bool there = key0 + key < values.n;
    copy_columns(to + key * (kColumns + 8) + column, values.begin + (there ? key0 + key : 0) * values.stride, there,
                 column0 + column, values.width);
  }
  commit_copies();
}

/// A warp's products -> weights of its 16 rows and 16 keys.
template <class Form, class S>
__device__ void store_weights(S& m, const float (&dots)[1 + Form::kKeyTrials][1][2][4], int row0, int key, int64_t key0,
                              const SampleShape& s) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, column = key + lane % 4 * 2;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int r = row0 + lane / 4 + half * 8;
    const OutputRow& row = m.rows[r];
    float x[1 + Form::kKeyTrials][4];
#pragma unroll
    for (int i = 0; i <= Form::kKeyTrials; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) x[i][j] = dots[i][0][j / 2][half * 2 + j % 2];
    to_exponents(x, static_cast<int>(key0) + column, row, s);
#pragma unroll
    for (int i = 0; i <= Form::kKeyTrials; ++i) {
      const KeptSum& sum = i == 0 ? row.sum : row.rounded[i - 1];
#pragma unroll
      for (float& exponent : x[i]) exponent = exp2_approximate(exponent - sum.maximum) * sum.inverse;
    }
#pragma unroll
    for (int w = 0; w < Form::kWeights; ++w)
#pragma unroll
      for (int j = 0; j < 4; j += 2) {
        const float* p = x[Form::kKeyTrials == 0 ? 0 : 1 + w];
        const bool moved = Form::kKeyTrials != 0;
        *reinterpret_cast<uint32_t*>(m.weights[w] + r * kWeightRow + column + j * 4) =
            narrow_pair(moved ? p[j] - x[0][j] : p[j], moved ? p[j + 1] - x[0][j + 1] : p[j + 1]);
      }
  }
}

/// Adds weights times a warp's columns of values.
template <class Form, int kColumns, bool kClips, class S>
__device__ void multiply_values(float (&sums)[Form::kSums][kRowTiles][kColumns / kWarps / 8][4], const S& m, int column,
                                const RungTrials& trials) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int k = 0; k < kKeys; k += 16) {
    uint32_t weights[Form::kWeights][kRowTiles][4];
#pragma unroll
    for (int w = 0; w < Form::kWeights; ++w)
#pragma unroll
      for (int t = 0; t < kRowTiles; ++t)
        load_matrices(weights[w][t], m.weights[w] + (t * 16 + lane % 16) * kWeightRow + k + lane / 16 * 8);
#pragma unroll
    for (int n = 0; n < kColumns / kWarps / 16; ++n) {
      uint32_t values[4], x[4];
      load_matrices_transposed(values, m.values + (k + lane % 16) * S::kValueRow + column + n * 16 + lane / 16 * 8);
#pragma unroll
      for (int i = 0; i < Form::kSums; ++i) {
        if (!Form::template operand<kClips>(i, trials, values, x)) continue;
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t)
          multiply_add_pair(sums[i][t][2 * n], sums[i][t][2 * n + 1], weights[Form::weights_of(i)][t], x);
      }
    }
  }
}

// ---------------------------------------------------------------- figures

/// |x|_w² of a warp's columns, by row.
template <class Form, int kColumns, class S>
__device__ void store_squares(S& m, const float (&sums)[Form::kSums][kRowTiles][kColumns / kWarps / 8][4],
                              int64_t column, const SampleArrays& a, const SampleShape& s) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
#pragma unroll
  for (int r = 0; r < 2 * kRowTiles; ++r) {
    const int row = r * 8 + lane / 4;
    const float* norms = a.column_norms + m.rows[row].figures % s.n_heads * s.value_dim;
    float squares[Form::kSums] = {};
#pragma unroll
    for (int n = 0; n < kColumns / kWarps / 8; ++n)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int64_t c = column + n * 8 + lane % 4 * 2 + j;
        const float norm = c < s.value_dim ? norms[c] : 0.0f;
#pragma unroll
        for (int i = 0; i < Form::kSums; ++i) {
          const float weighted = sums[i][r / 2][n][r % 2 * 2 + j] * norm;
          squares[i] += weighted * weighted;
        }
      }
#pragma unroll
    for (int i = 0; i < Form::kSums; ++i) {
      const float sum = warp_reduce<4>(squares[i], Sum());
      if (lane % 4 == 0) m.squares[warp][i][row] = sum;
    }
  }
}

/// Writes a row's figures, or adds those of more columns to them.
template <class Form, class S>
__device__ void write_figures(const S& m, const OutputRow& row, int r, const RungTrials& trials, bool first_columns,
                              const SampleArrays& a, const SampleShape& s) {
  float* figures = a.figures + row.figures * s.n_figures;
#pragma unroll
  for (int i = 0; i < Form::kSums; ++i) {
    const int trial = Form::trial_of(i);
    if (trial >= trials.n) break;
    float sum = 0.0f;
    for (int w = 0; w < kWarps; ++w) sum += m.squares[w][i][r];
    const auto add = [&](float& figure) { figure = first_columns ? sum : figure + sum; };
    if (trial < 0) add(figures[s.output]);
    if (trial >= 0)
      for_slots(row.rungs[Form::kSite], trials.rungs[trial], s,
                [&](int slot) { add(figures[Form::figure(s) + slot]); });
  }
}

/// What of the row's own slots the rungs of this walk are.
template <class Form>
__device__ void find_rounded(OutputRow& row, const RungTrials& trials, const SampleArrays& a, const SampleShape& s) {
#pragma unroll
  for (int i = 0; i < kWalkRungs; ++i) {
    row.rounded[i] = {};
    if (i < trials.n)
      for_slots(row.rungs[0], trials.rungs[i], s,
                [&](int slot) { row.rounded[i] = rounded_kept(s, slot).read(a.figures + row.figures * s.n_figures); });
  }
}

/// Block (tile of rows, key-value head, sequence).
template <class Form, int kColumns>
__global__ void __launch_bounds__(kThreads) sample_outputs_kernel(SampleArrays a, SampleShape s) {
  constexpr int kOwn = kColumns / kWarps;  // columns of a warp
  const SampledSequence sequence = a.sequences[blockIdx.z];
  const int64_t first_row = int64_t{blockIdx.x} * kRows;
  if (!has_row(sequence, first_row, s)) return;
  auto& m = *dynamic_shared<Shared<Form, kColumns>>();
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarp;
  const int row0 = warp / kKeyWarps * 16, key = warp % kKeyWarps * 16, column = warp * kOwn;
  if (thread < kRows) {
    OutputRow& row = m.rows[thread] = {};
    static_cast<TileRow&>(row) = row_of(first_row + thread, sequence, a, s);
    row.sum = row.there ? Form::exact(s).read(a.figures + row.figures * s.n_figures) : KeptSum{};
  }
  __syncthreads();
  list_rungs<kRows>(m.rungs, m.rows, Form::kSite, s);
  const bool clips_some = clips<kRows>(m.rows, Form::kSite, s);
  const HeadRows<bf16> keys = keys_of<bf16>(sequence, s), values = values_of<bf16>(sequence, s);
  for (int first = 0; first < m.rungs.n; first += kWalkRungs) {
    const RungTrials trials(Trials(m.rungs, first), clips_some, s.format);
    if constexpr (Form::kKeyTrials != 0)
      if (thread < kRows && m.rows[thread].there) find_rounded<Form>(m.rows[thread], trials, a, s);
    for (int column0 = 0; column0 < s.value_dim; column0 += kColumns) {
      float sums[Form::kSums][kRowTiles][kOwn / 8][4] = {};
      walk_keys<Form::kKeyTrials, 1, 1>(
          m.slabs, static_cast<const bf16*>(a.q), m.rows, keys, row0, key, Form::key_trials(trials),
          [&](int64_t key0) { load_values<kColumns>(m.values, values, key0, column0); },
          [&](int64_t key0, const float(&dots)[1 + Form::kKeyTrials][1][2][4]) {
            store_weights<Form>(m, dots, row0, key, key0, s);
            wait_copies<0>();
            __syncthreads();  // weights and values are there
            if (column0 + column >= s.value_dim) return;
            if (Form::kSite == 1 && trials.clips)
              multiply_values<Form, kColumns, true>(sums, m, column, trials);
            else
              multiply_values<Form, kColumns, false>(sums, m, column, trials);
          });
      store_squares<Form, kColumns>(m, sums, column0 + column, a, s);
      __syncthreads();
      if (thread < kRows && m.rows[thread].there)
        write_figures<Form>(m, m.rows[thread], thread, trials, column0 == 0, a, s);
    }
  }
}

template <class Form, int kColumns>
void start(const SampleArrays& a, const SampleShape& s, cudaStream_t stream) {
  launch(KVCAL_KERNEL(sample_outputs_kernel<Form, kColumns>), grid_of<kRows>(s), dim3(kThreads),
         sizeof(Shared<Form, kColumns>), stream, a, s);
}

template <class Form>
void start(const SampleArrays& a, const SampleShape& s, cudaStream_t stream) {
  if (s.value_dim <= 128)
    start<Form, 128>(a, s, stream);
  else
    start<Form, 256>(a, s, stream);
}

}  // namespace

void sample_value_outputs(const SampleArrays& arrays, const SampleShape& shape, cudaStream_t stream) {
  start<ValueForm>(arrays, shape, stream);
}
void sample_key_outputs(const SampleArrays& arrays, const SampleShape& shape, cudaStream_t stream) {
  start<KeyForm>(arrays, shape, stream);
}

}  // namespace kvcal::cuda
