// Attention of sampled rows with keys, or values, rounded at rungs of a ladder (ops/attention_sample.h), in f32.
//
// A block has 32 query rows of one key-value head: sampled positions, each with all query heads of the group. It walks
// over key blocks of 64 at absolute positions with an online softmax. Tiles of keys and values are rounded on their way
// to shared memory, once for each rung that any of the 32 rows tries; a product counts for the rows that try the rung.
// A key block in which a row sees nothing changes nothing of it, so a row's figures do not depend on its tile.
#include "kernels/device/real.cuh"
#include "kernels/device/reduce.cuh"
#include "kernels/device/rung.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

constexpr int kKeys = 64, kRows = 32, kThreads = 256;
constexpr int kLadder = 2 * kMostRung + kSampleRungs - 1;  // all rungs that may be tried

// ---------------------------------------------------------------- tiles in shared memory

constexpr int kSlab = 32;  // dimensions of keys, or keys, that are in shared memory at once
constexpr int kRowSkew = kRows + 4, kKeySkew = kKeys + 4;  // rows there: still aligned for four floats

/// Log of a sum of exponentials.
struct LogSum {
  float maximum, total;
};

/// What is kept of a query row between key blocks.
struct RowState {
  LogSum exact, rounded[kSampleRungs];
  float moved[kSampleRungs];  // Σ p (l - l') below exact.maximum
  float factor;               // what sums so far are worth under the new maximum
  int first_key, last_key;
  int64_t query;  // of q, and of figures: sampled row · n_heads + head
  int64_t figures;
  int lowest[2];  // rungs of keys, of values
  bool there;
};

/// Rungs of keys, or values, that some row of the tile tries.
struct Rungs {
  int n;
  bool tried[kLadder];
  signed char list[kLadder];
};

/// Whether slot i of a row whose lowest rung is `lowest` is this rung.
__device__ inline bool is_slot(int i, int lowest, int rung) {
  return rung == (i == kSampleRungs - 1 ? kRungOfOne : lowest + i);
}

/// All threads of the block.
__device__ void list_rungs(Rungs& rungs, const RowState* rows, int site) {
  for (int i = static_cast<int>(threadIdx.x); i < kLadder; i += kThreads) {
    bool tried = false;
    for (int r = 0; r < kRows; ++r)
      for (int slot = 0; slot < kSampleRungs; ++slot)
        tried = tried || (rows[r].there && is_slot(slot, rows[r].lowest[site], kLeastRung + i));
    rungs.tried[i] = tried;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    rungs.n = 0;
    for (int i = 0; i < kLadder; ++i)
      if (rungs.tried[i]) rungs.list[rungs.n++] = static_cast<signed char>(kLeastRung + i);
  }
  __syncthreads();
}

/// scale · E4M3(x / scale); x itself where the scale is 0.
__device__ inline float through_e4m3(float x, float scale, float inverse) {
  return scale == 0.0f ? x : rounded_to_e4m3(x * inverse) * scale;
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
};

/// Products of the thread's two rows, 2 (thread / 16) and the next, and four keys, 4 (thread % 16) and on. scale 0:
/// keys as they are.
template <class T>
__device__ void multiply_keys(float (&dot)[2][4], KeySlab& slab, const T* q, const RowState* rows,
                              const HeadRows<T>& keys, int64_t key0, float scale) {
  const int thread = static_cast<int>(threadIdx.x), d = thread % kSlab;
  const int row = thread / 16 * 2, key = thread % 16 * 4;
  const float inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
  for (auto& of_row : dot)
    for (float& x : of_row) x = 0.0f;
  for (int d0 = 0; d0 < keys.width; d0 += kSlab) {
    __syncthreads();  // the slab before has been read
    for (int r = thread / kSlab; r < kRows; r += kThreads / kSlab)
      slab.query[d][r] = rows[r].there && d0 + d < keys.width ? widen(q[rows[r].query * keys.width + d0 + d]) : 0.0f;
    for (int j = thread / kSlab; j < kKeys; j += kThreads / kSlab)
      slab.key[d][j] = through_e4m3(keys.at(key0 + j, d0 + d), scale, inverse);
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
__device__ inline void to_logits(float (&x)[4], const RowState& row, int64_t key, const SampleShape& s) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float logit = x[j] * s.scale, capped = s.softcap > 0.0f ? s.softcap * tanhf(logit / s.softcap) : logit;
    x[j] = row.there && key + j >= row.first_key && key + j <= row.last_key ? capped : -INFINITY;
  }
}

constexpr int kKeyThreads = 16;  // that share a row in multiply_keys()

__device__ inline float largest(const float (&x)[4]) {
  const float top = fmaxf(fmaxf(x[0], x[1]), fmaxf(x[2], x[3]));
  return warp_reduce<kKeyThreads>(top, Maximum());
}

/// exp(x - maximum); nothing for what is not visible, also where the maximum is that of nothing.
__device__ inline float below(float x, float maximum) { return x == -INFINITY ? 0.0f : expf(x - maximum); }

/// Logits -> probabilities below the new maximum. One thread of a row keeps its state.
__device__ inline void weigh(float (&p)[4], const float (&logits)[4], RowState& row) {
  const float next = fmaxf(row.exact.maximum, largest(logits)), factor = below(row.exact.maximum, next);
  float total = 0.0f;
#pragma unroll
  for (int j = 0; j < 4; ++j) total += p[j] = below(logits[j], next);
  total = warp_reduce<kKeyThreads>(total, Sum());
  if (threadIdx.x % kKeyThreads != 0) return;
  row.exact = {next, row.exact.total * factor + total};
  for (float& moved : row.moved) moved *= factor;
  row.factor = factor;
}

/// Logits with keys rounded at a rung, beside the exact ones.
__device__ inline void compare(const float (&logits)[4], const float (&others)[4], const float (&p)[4], RowState& row,
                               int rung) {
  const float top = largest(others);
  float total = 0.0f, moved = 0.0f;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    total += below(others[j], top);
    if (p[j] != 0.0f) moved += p[j] * (logits[j] - others[j]);
  }
  total = warp_reduce<kKeyThreads>(total, Sum());
  moved = warp_reduce<kKeyThreads>(moved, Sum());
  if (threadIdx.x % kKeyThreads != 0 || top == -INFINITY) return;
  for (int slot = 0; slot < kSampleRungs; ++slot) {
    if (!is_slot(slot, row.lowest[0], rung)) continue;
    LogSum& sum = row.rounded[slot];
    const float next = fmaxf(sum.maximum, top);
    sum = {next, sum.total * below(sum.maximum, next) + total * below(top, next)};
    row.moved[slot] += moved;
  }
}

// ---------------------------------------------------------------- values

/// kColumns columns of 32 rows: a thread has four neighbouring columns of kOwnRows rows.
template <int kColumns>
struct ValueTile {
  static constexpr int kColumnThreads = kColumns / 4, kOwnRows = kRows * kColumnThreads / kThreads;
  float sums[1 + kSampleRungs][kOwnRows][4];  // Σ p v, and by slot Σ p (v' - v)
};

/// Products of probabilities [key, row] and values, or (scale not 0) the changes of values.
template <int kColumns, class T>
__device__ void multiply_values(float (&product)[ValueTile<kColumns>::kOwnRows][4], ValueSlab<kColumns>& slab,
                                const Probabilities& p, const HeadRows<T>& values, int64_t key0, int column0,
                                float scale) {
  using Tile = ValueTile<kColumns>;
  const int thread = static_cast<int>(threadIdx.x);
  const int row = thread / Tile::kColumnThreads * Tile::kOwnRows, column = thread % Tile::kColumnThreads * 4;
  const float inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
  for (auto& of_row : product)
    for (float& x : of_row) x = 0.0f;
  for (int j0 = 0; j0 < kKeys; j0 += kSlab) {
    __syncthreads();  // the slab before has been read, the probabilities are there
    for (int i = thread; i < kSlab * kColumns; i += kThreads) {
      const float x = values.at(key0 + j0 + i / kColumns, column0 + i % kColumns);
      slab.value[i / kColumns][i % kColumns] = scale == 0.0f ? x : through_e4m3(x, scale, inverse) - x;
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

/// One key block's part of all sums.
template <int kColumns, class T>
__device__ void add_values(ValueTile<kColumns>& tile, ValueSlab<kColumns>& slab, const Probabilities& p,
                           const RowState* rows, const Rungs& rungs, const HeadRows<T>& values, int64_t key0,
                           int column0) {
  using Tile = ValueTile<kColumns>;
  const int row0 = static_cast<int>(threadIdx.x) / Tile::kColumnThreads * Tile::kOwnRows;
  float product[Tile::kOwnRows][4];
  multiply_values<kColumns>(product, slab, p, values, key0, column0, 0.0f);
#pragma unroll
  for (int r = 0; r < Tile::kOwnRows; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c) {
#pragma unroll
      for (int i = 0; i <= kSampleRungs; ++i) tile.sums[i][r][c] *= rows[row0 + r].factor;
      tile.sums[0][r][c] += product[r][c];
    }
  for (int k = 0; k < rungs.n; ++k) {
    const int rung = rungs.list[k];
    multiply_values<kColumns>(product, slab, p, values, key0, column0, scale_of(rung));
#pragma unroll
    for (int r = 0; r < Tile::kOwnRows; ++r)
#pragma unroll
      for (int i = 0; i < kSampleRungs; ++i)
        if (is_slot(i, rows[row0 + r].lowest[1], rung))
#pragma unroll
          for (int c = 0; c < 4; ++c) tile.sums[1 + i][r][c] += product[r][c];
  }
}

/// Adds |x / total|_w² of these columns to the rows' figures.
template <int kColumns>
__device__ void add_squares(const ValueTile<kColumns>& tile, const RowState* rows, const SampleArrays& a,
                            const SampleShape& s, int column0) {
  using Tile = ValueTile<kColumns>;
  const int thread = static_cast<int>(threadIdx.x), column = column0 + thread % Tile::kColumnThreads * 4;
#pragma unroll
  for (int r = 0; r < Tile::kOwnRows; ++r) {
    const RowState& row = rows[thread / Tile::kColumnThreads * Tile::kOwnRows + r];
    const float* norms = a.column_norms + row.figures % s.n_heads * s.value_dim;
    const float inverse = 1.0f / row.exact.total;
#pragma unroll
    for (int i = 0; i <= kSampleRungs; ++i) {
      float squares = 0.0f;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const float y = column + c < s.value_dim ? tile.sums[i][r][c] * inverse * norms[column + c] : 0.0f;
        squares += y * y;
      }
      squares = warp_reduce<Tile::kColumnThreads>(squares, Sum());
      if (thread % Tile::kColumnThreads == 0 && row.there)
        a.figures[row.figures * kSampleFigures + (i == 0 ? kFigureOutput : kFigureChange + i - 1)] += squares;
    }
  }
}

// ---------------------------------------------------------------- the tile

/// Thread r prepares row r of the block; a row behind the last is not there.
__device__ void begin_row(RowState& state, const SampledSequence& sequence, const SampleArrays& a,
                          const SampleShape& s) {
  const int64_t group = s.n_heads / s.n_kv_heads, r = int64_t{blockIdx.x} * kRows + threadIdx.x;
  state = {};
  state.there = r < sequence.n_rows * group;
  if (!state.there) return;
  const int64_t index = sequence.first_row + r / group, head = blockIdx.y * group + r % group;
  const SampledRow row = a.rows[index];
  state.query = row.row * s.n_heads + head;
  state.figures = index * s.n_heads + head;
  state.first_key = row.first_key;
  state.last_key = row.last_key;
  for (int site = 0; site < 2; ++site) state.lowest[site] = a.rungs[2 * index + site];
  // A sink is a first key without a value, and rounded never.
  state.exact = a.sinks ? LogSum{a.sinks[head], 1.0f} : LogSum{-INFINITY, 0.0f};
  for (LogSum& sum : state.rounded) sum = state.exact;
}

__device__ void write_divergences(const RowState& row, float* figures) {
  const auto value = [](const LogSum& sum) {
    return static_cast<double>(sum.maximum) + log(static_cast<double>(sum.total));
  };
  for (int i = 0; i < kSampleRungs; ++i) {
    const double divergence =
        static_cast<double>(row.moved[i] / row.exact.total) + (value(row.rounded[i]) - value(row.exact));
    figures[kFigureDivergence + i] = divergence < 0.0 ? 0.0f : static_cast<float>(divergence);
  }
}

/// Block (tile of query rows, key-value head, sequence). Value columns come kColumns at a time; logits are made anew
/// for each time, those of rounded keys at the first only. figures are zeros before.
template <class T, int kColumns>
__global__ void __launch_bounds__(kThreads) sample_attention_kernel(SampleArrays a, SampleShape s) {
  const SampledSequence sequence = a.sequences[blockIdx.z];
  if (int64_t{blockIdx.x} * kRows >= sequence.n_rows * (s.n_heads / s.n_kv_heads)) return;
  KVCAL_SHARED(RowState, rows, kRows);
  KVCAL_SHARED(Rungs, rungs, 2);
  KVCAL_SHARED(KeySlab, key_slab, 1);
  KVCAL_SHARED(ValueSlab<kColumns>, value_slab, 1);
  KVCAL_SHARED(Probabilities, probabilities, 1);
  const int thread = static_cast<int>(threadIdx.x), row0 = thread / kKeyThreads * 2, key = thread % kKeyThreads * 4;
  const HeadRows<T> keys{static_cast<const T*>(sequence.key) + blockIdx.y * s.key_dim, s.n_kv_heads * s.key_dim,
                         sequence.n_tokens, static_cast<int>(s.key_dim)};
  const HeadRows<T> values{static_cast<const T*>(sequence.value) + blockIdx.y * s.value_dim, s.n_kv_heads * s.value_dim,
                           sequence.n_tokens, static_cast<int>(s.value_dim)};
  const T* q = static_cast<const T*>(a.q);

  for (int column0 = 0; column0 == 0 || column0 < s.value_dim; column0 += kColumns) {
    __syncthreads();  // the rows' states have been read
    if (thread < kRows) begin_row(rows[thread], sequence, a, s);
    __syncthreads();
    if (column0 == 0)
      for (int site = 0; site < 2; ++site) list_rungs(rungs[site], rows, site);
    int last = 0;
    for (int r = 0; r < kRows; ++r) last = rows[r].there && rows[r].last_key > last ? rows[r].last_key : last;
    ValueTile<kColumns> tile = {};
    for (int64_t key0 = rows[0].first_key / kKeys * kKeys; key0 <= last; key0 += kKeys) {
      float logits[2][4], p[2][4];
      multiply_keys(logits, key_slab[0], q, rows, keys, key0, 0.0f);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        to_logits(logits[r], rows[row0 + r], key0 + key, s);
        weigh(p[r], logits[r], rows[row0 + r]);
        for (int j = 0; j < 4; ++j) probabilities[0].p[key + j][row0 + r] = p[r][j];
      }
      for (int k = 0; column0 == 0 && k < rungs[0].n; ++k) {
        const int rung = rungs[0].list[k];
        float others[2][4];
        multiply_keys(others, key_slab[0], q, rows, keys, key0, scale_of(rung));
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          to_logits(others[r], rows[row0 + r], key0 + key, s);
          compare(logits[r], others[r], p[r], rows[row0 + r], rung);
        }
      }
      add_values<kColumns>(tile, value_slab[0], probabilities[0], rows, rungs[1], values, key0, column0);
    }
    __syncthreads();
    add_squares<kColumns>(tile, rows, a, s, column0);
    if (column0 == 0 && thread < kRows && rows[thread].there)
      write_divergences(rows[thread], a.figures + rows[thread].figures * kSampleFigures);
  }
}

template <class T>
void sample(const SampleArrays& a, const SampleShape& s, cudaStream_t stream) {
  const dim3 grid(n_blocks(s.most_rows * (s.n_heads / s.n_kv_heads), kRows), n_blocks(s.n_kv_heads, 1),
                  n_blocks(s.n_sequences, 1));
  if (s.value_dim <= 64)
    launch(KVCAL_KERNEL(sample_attention_kernel<T, 64>), grid, dim3(kThreads), 0, stream, a, s);
  else
    launch(KVCAL_KERNEL(sample_attention_kernel<T, 128>), grid, dim3(kThreads), 0, stream, a, s);
}

}  // namespace

void sample_attention(DType t, const SampleArrays& arrays, const SampleShape& shape, cudaStream_t stream) {
  visit_activation(t, [&](auto tag) { sample<decltype(tag)>(arrays, shape, stream); });
}

}  // namespace kvcal::cuda
