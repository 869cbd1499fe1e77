// Sampled attention of bf16 on tensor cores (ops/attention_sample.h): how far probabilities move with keys, or the
// query, rounded at rungs of a ladder. The formulas are those of attention_sample.cu, the products
// device/sample_slabs.cuh's.
//
// A block walks over the keys of 64 rows once for each four rungs that some row tries; of queries for four of
// each row's own. A thread keeps sums of its own rows and keys, in powers of two; they meet at the end of the
// walk.
#include "kernels/device/sample_slabs.cuh"
#include "kernels/device/shared.cuh"
#include "kernels/runtime/launch.h"
#include "kernels/sample_tiles.h"

namespace kvcal::cuda {
namespace {

constexpr int kRows = 64;

/// Sum of powers of two.
struct PowerSum {
  float maximum, total;  // below the maximum

  /// What is subtracted from exponents: the maximum, unless that is of nothing.
  static __device__ float base_of(float maximum) { return maximum == -INFINITY ? 0.0f : maximum; }

  /// Adds powers of more exponents -> themselves below the new maximum. Returns what those before are worth under it.
  template <int kCount>
  __device__ float add(const float (&exponents)[kCount], float (&powers)[kCount]) {
    float top = maximum, added = 0.0f;
#pragma unroll
    for (const float x : exponents) top = fmaxf(top, x);
    const float base = base_of(top), shrinks = exp2_approximate(maximum - base);
#pragma unroll
    for (int j = 0; j < kCount; ++j) added += powers[j] = exp2_approximate(exponents[j] - base);
    maximum = top;
    total = total * shrinks + added;
    return shrinks;
  }

  /// Of other powers; what own and others are worth under the common maximum.
  __device__ void join(const PowerSum& other, float& own, float& others) {
    const float top = fmaxf(maximum, other.maximum), base = base_of(top);
    own = exp2_approximate(maximum - base);
    others = exp2_approximate(other.maximum - base);
    maximum = top;
    total = total * own + other.total * others;
  }

  __device__ PowerSum of_lane(int distance) const {
    return {__shfl_xor_sync(kAllLanes, maximum, distance), __shfl_xor_sync(kAllLanes, total, distance)};
  }
};

/// A row's sums over some of its keys.
template <int kTrials>
struct RowSums {
  PowerSum exact, rounded[kTrials];
  float moved[kTrials];  // Σ p (l - l') below exact.maximum

  /// With nothing, or a sink.
  __device__ void begin(const PowerSum& sink) {
    exact = sink;
#pragma unroll
    for (int i = 0; i < kTrials; ++i) {
      rounded[i] = sink;
      moved[i] = 0.0f;
    }
  }

  template <int kCount>
  __device__ void add(const float (&logits)[kCount], float (&p)[kCount]) {
    const float shrinks = exact.add(logits, p);
#pragma unroll
    for (float& x : moved) x *= shrinks;
  }

  /// The same keys in the i-th trial.
  template <int kCount>
  __device__ void compare(int i, const float (&logits)[kCount], const float (&p)[kCount],
                          const float (&others)[kCount]) {
    float powers[kCount];
    rounded[i].add(others, powers);
#pragma unroll
    for (int j = 0; j < kCount; ++j)
      if (p[j] != 0.0f) moved[i] += p[j] * (logits[j] - others[j]);
  }

  /// With those over other keys.
  __device__ void join(const RowSums& other) {
    float own, others, unused[2];
    exact.join(other.exact, own, others);
#pragma unroll
    for (int i = 0; i < kTrials; ++i) {
      moved[i] = moved[i] * own + other.moved[i] * others;
      rounded[i].join(other.rounded[i], unused[0], unused[1]);
    }
  }

  __device__ RowSums of_lane(int distance) const {
    RowSums other;
    other.exact = exact.of_lane(distance);
#pragma unroll
    for (int i = 0; i < kTrials; ++i) {
      other.rounded[i] = rounded[i].of_lane(distance);
      other.moved[i] = __shfl_xor_sync(kAllLanes, moved[i], distance);
    }
    return other;
  }

  /// KL(p, p').
  __device__ float divergence(int i) const {
    constexpr double kLn2 = 0.693147180559945309;
    const double powers = static_cast<double>(moved[i] / exact.total) +
                          (static_cast<double>(rounded[i].maximum) - static_cast<double>(exact.maximum));
    const double d = kLn2 * powers + log(static_cast<double>(rounded[i].total) / static_cast<double>(exact.total));
    return d < 0.0 ? 0.0f : static_cast<float>(d);
  }
};

// ---------------------------------------------------------------- what is rounded

/// Keys: 32 rows and 16 keys a warp, so that a rounded operand meets two tiles of rows.
struct KeyForm {
  static constexpr int kRowTiles = 2, kKeyTiles = 1;
  using Row = TileRow;
  const Rungs& rungs;
  bool clips;

  __device__ KeyForm(Rungs& list, const Row* rows, const SampleShape& s)
      : rungs(list), clips(cuda::clips<kRows>(rows, 0, s)) {
    list_rungs<kRows>(list, rows, 0, s);
  }
  static __device__ void begin(Row& row, const TileRow& known, const SampleShape&) { row = known; }
  __device__ int n() const { return rungs.n; }
  __device__ RungTrials trials(int first, const Row&, const Row&, const SampleShape& s) const {
    return {Trials(rungs, first), clips, s.format};
  }
  /// A row's figures of this walk; of the first one also what other kernels need.
  __device__ void write(float* figures, const RowSums<kWalkRungs>& sums, const Row& row, const RungTrials& trials,
                        int first, const SampleShape& s) const {
    const bool thorough = row.thorough && s.n_rungs == 3;
    if (first == 0) {
      exact_kept(s).keep(figures, sums.exact.maximum, sums.exact.total);
      for (int i = s.query_divergence; i < s.n_figures; ++i) figures[i] = -1.0f;
      if (thorough) thorough_kept(s).keep(figures, sums.exact.maximum, sums.exact.total);
    }
#pragma unroll
    for (int i = 0; i < kWalkRungs; ++i) {
      if (i >= trials.n) break;
      const float divergence = sums.divergence(i);
      for_slots(row.rungs[0], trials.rungs[i], s, [&](int slot) {
        figures[s.key_divergence + slot] = divergence;
        if (thorough) rounded_kept(s, slot).keep(figures, sums.rounded[i].maximum, sums.rounded[i].total);
      });
    }
  }
};

/// The rungs of two rows' queries that a walk tries.
struct QueryTrials {
  PairRounding at_one;
  bool clips;
  int n, rungs[2][kWalkRungs];

  /// An operand's registers are of the first row and the second in turn.
  template <bool kClips, int kKeyTiles>
  __device__ bool round(int i, TileOperands<1, kKeyTiles>& x) const {
    if (i >= n) return false;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const PairRounding at_rung = at_one.above(rungs[half][i]);
      x.query[0][half] = at_rung.template round<kClips>(x.query[0][half]);
      x.query[0][half + 2] = at_rung.template round<kClips>(x.query[0][half + 2]);
    }
    return true;
  }
};

/// The query: 16 rows and 32 keys a warp.
struct QueryForm {
  static constexpr int kRowTiles = 1, kKeyTiles = 2;
  using Row = ThoroughRow;
  int most;  // that one of the rows tries
  bool clips;

  __device__ QueryForm(Rungs&, const Row* rows, const SampleShape& s) : most(0), clips(cuda::clips<kRows>(rows, 2, s)) {
    for (int r = 0; r < kRows; ++r) most = max(most, rows[r].tried.n);
  }
  static __device__ void begin(Row& row, const TileRow& known, const SampleShape& s) { begin_thorough(row, known, s); }
  __device__ int n() const { return most; }
  __device__ QueryTrials trials(int first, const Row& row, const Row& other, const SampleShape& s) const {
    QueryTrials trials{pair_rounding(s.format), clips, min(most - first, kWalkRungs), {}};
#pragma unroll
    for (int i = 0; i < kWalkRungs; ++i) {
      const int at = min(first + i, kMostQueryRungs - 1);
      trials.rungs[0][i] = row.tried.list[at];
      trials.rungs[1][i] = other.tried.list[at];
    }
    return trials;
  }
  __device__ void write(float* figures, const RowSums<kWalkRungs>& sums, const Row& row, const QueryTrials& trials,
                        int first, const SampleShape& s) const {
#pragma unroll
    for (int i = 0; i < kWalkRungs; ++i) {
      if (i >= trials.n || first + i >= row.tried.n) break;
      const float divergence = sums.divergence(i);
      for (int slot = 0; slot < n_slots(s.query); ++slot)
        if (row.rungs[2].tried(s.query, slot) == row.tried.list[first + i])
          figures[s.query_divergence + slot] = divergence;
    }
  }
};

// ---------------------------------------------------------------- kernel

template <class Form>
struct Shared {
  static constexpr int kKeyWarps = kKeys / (16 * Form::kKeyTiles);  // that share a row
  Slab<kRows> slabs[2];
  RowSums<kWalkRungs> sums[kKeyWarps][kRows];
  typename Form::Row rows[kRows];
  Rungs rungs;
};

/// Block (tile of rows, key-value head, sequence).
template <class Form>
__global__ void __launch_bounds__(kThreads) sample_logits_kernel(SampleArrays a, SampleShape s) {
  constexpr int kRowTiles = Form::kRowTiles, kKeyTiles = Form::kKeyTiles;
  constexpr int kKeyWarps = Shared<Form>::kKeyWarps;
  const SampledSequence sequence = a.sequences[blockIdx.z];
  const int64_t first_row = int64_t{blockIdx.x} * kRows;
  if (!has_row(sequence, first_row, s)) return;
  auto& m = *dynamic_shared<Shared<Form>>();
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
  const int row0 = warp / kKeyWarps * kRowTiles * 16, key = warp % kKeyWarps * kKeyTiles * 16;
  if (thread < kRows) Form::begin(m.rows[thread], row_of(first_row + thread, sequence, a, s), s);
  __syncthreads();
  const Form form(m.rungs, m.rows, s);
  for (int first = 0; first < form.n(); first += kWalkRungs) {
    const auto trials = form.trials(first, m.rows[row0 + lane / 4], m.rows[row0 + lane / 4 + 8], s);
    RowSums<kWalkRungs> sums[kRowTiles][2];
#pragma unroll
    for (int r = 0; r < 2 * kRowTiles; ++r) {
      const LogSum sink = m.rows[row0 + r * 8 + lane / 4].exact;
      const bool begins = key == 0 && lane % 4 == 0;
      sums[r / 2][r % 2].begin(begins ? PowerSum{sink.maximum * kLog2E, sink.total} : PowerSum{-INFINITY, 0.0f});
    }
    walk_keys<kWalkRungs, kRowTiles, kKeyTiles>(
        m.slabs, static_cast<const bf16*>(a.q), m.rows, keys_of<bf16>(sequence, s), row0, key, trials, [](int64_t) {},
        [&](int64_t key0, const float(&dots)[1 + kWalkRungs][kRowTiles][2 * kKeyTiles][4]) {
#pragma unroll
          for (int r = 0; r < 2 * kRowTiles; ++r) {
            const auto& row = m.rows[row0 + r * 8 + lane / 4];
            float logits[1 + kWalkRungs][4 * kKeyTiles], p[4 * kKeyTiles];
#pragma unroll
            for (int i = 0; i <= kWalkRungs; ++i)
#pragma unroll
              for (int j = 0; j < 4 * kKeyTiles; ++j) logits[i][j] = dots[i][r / 2][j / 2][r % 2 * 2 + j % 2];
            to_exponents(logits, static_cast<int>(key0) + key + lane % 4 * 2, row, s);
            sums[r / 2][r % 2].add(logits[0], p);
#pragma unroll
            for (int i = 0; i < kWalkRungs; ++i)
              if (i < trials.n) sums[r / 2][r % 2].compare(i, logits[0], p, logits[1 + i]);
          }
        });
#pragma unroll
    for (int r = 0; r < 2 * kRowTiles; ++r) {
      RowSums<kWalkRungs>& own = sums[r / 2][r % 2];
      for (int lanes = 1; lanes < 4; lanes *= 2) own.join(own.of_lane(lanes));
      if (lane % 4 == 0) m.sums[key / (16 * kKeyTiles)][row0 + r * 8 + lane / 4] = own;
    }
    __syncthreads();
    if (thread >= kRows || !m.rows[thread].there) continue;  // the walks have as many barriers for all
    RowSums<kWalkRungs> all = m.sums[0][thread];
    for (int w = 1; w < kKeyWarps; ++w) all.join(m.sums[w][thread]);
    const auto& row = m.rows[thread];
    form.write(a.figures + row.figures * s.n_figures, all, row, trials, first, s);
  }
}

template <class Form>
void start(const SampleArrays& a, const SampleShape& s, cudaStream_t stream) {
  launch(KVCAL_KERNEL(sample_logits_kernel<Form>), grid_of<kRows>(s), dim3(kThreads), sizeof(Shared<Form>), stream, a,
         s);
}

}  // namespace

void sample_key_logits(const SampleArrays& arrays, const SampleShape& shape, cudaStream_t stream) {
  start<KeyForm>(arrays, shape, stream);
}
void sample_query_logits(const SampleArrays& arrays, const SampleShape& shape, cudaStream_t stream) {
  start<QueryForm>(arrays, shape, stream);
}

}  // namespace kvcal::cuda
