// Statistics of what a tap sees: one pass over x [tokens, heads, width] into the tables of ops/tap_tables.h.
//
// A block takes some rows of one head, a thread one channel (tile after tile of them where a head is wide). Values of
// the window, zeros and 2^-24 .. 2^16, are counted in shared memory:
//   bins [code]: all threads add; +1 without a result is one instruction that also joins lanes of equal code. With 128
//   codes to the octave few lanes of a warp meet, unlike in a coarser histogram;
//   sums [octave][channel]: a column belongs to one thread, so there are neither atomics nor bank conflicts. They are
//   packed for kRows rows, then unpacked into the tables.
// A code outside the window goes straight to the tables in global memory, which have all codes: nothing is lost, and
// there is no under or over. Those, and the flush of a block, are the only 64-bit additions for values; maxima are
// first compared with what is there and rarely written. All sums are of integers: grid and order cannot be seen.
//
// A value costs its load and 35 instructions of sm_90a, 30 of energies alone (counted in the machine code, not
// measured); the branch for what has no bin is kept out of them, hence the odd places where infinity and NaN become
// zero.
#include <type_traits>

#include "kernels/device/shared.cuh"
#include "kernels/device/tally.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

constexpr int kRows = PackedSums::kMost;  // between two flushes of the sums

constexpr unsigned kNothing = 0x17FFF;  // stands for the bits of a value that is not there; like NaN it is in no bin

/// What a block works on.
template <class T>
struct Part {
  const TapCount& job;
  const T* x;  // [tokens, width] of the head, a row every `stride` values
  Word* words;
  int64_t head, stride;

  /// The head's first moment of an octave and channel; the others follow every `width` words.
  __device__ Word* moments(int64_t octave, int64_t channel) const {
    const TapShape& s = job.shape;
    return words + job.layout.moments + (octave * s.heads + head) * (s.kept == TapSums::Energy ? 1 : 4) * s.width +
           channel;
  }
};

__device__ const TapRows& rows_with(const TapCount& job, int64_t row) {
  int64_t low = 0, high = job.n_pieces - 1;
  while (low < high) {
    const int64_t middle = (low + high + 1) / 2;
    if (job.rows[middle].row <= row)
      low = middle;
    else
      high = middle - 1;
  }
  return job.rows[low];
}

__device__ Word place_of(const TapCount& job, const TapRows& piece, int64_t row, int64_t channel) {
  return static_cast<Word>((piece.first_rank + (row - piece.row) * piece.rank_step) * job.shape.width + channel);
}

/// Counts a value for which there is no bin.
template <class T>
__device__ __noinline__ void count_outside(Part<T> part, unsigned bits, int64_t row, int64_t channel) {
  const TapCount& job = part.job;
  const unsigned code = bits & kMagnitude;
  atomicAdd(&part.words[job.layout.codes + part.head * kTapCodes + code], Word{1});
  if (code >= kInfinity) {
    const Word place = place_of(job, rows_with(job, row), row, channel);
    raise(&part.words[job.layout.non_finite + part.head], ~(place << 1 | (code > kInfinity)));
    return;
  }
  const Word m = code % kOctaveCodes | hidden_bit(true);
  Word* to = part.moments(code / kOctaveCodes, channel);
  const int64_t width = job.shape.width;
  if (job.shape.kept == TapSums::Energy) {
    atomicAdd(to, m * m);
    return;
  }
  atomicAdd(to, Word{1});
  atomicAdd(to + width, m);
  atomicAdd(to + 2 * width, m * m);
  atomicAdd(to + 3 * width, bits > kMagnitude ? ~m + 1 : m);
}

template <bool kEnergyOnly>
struct Shared {
  using Sum = std::conditional_t<kEnergyOnly, uint32_t, Word>;  // Σm² of kRows rows, or PackedSums
  unsigned char* sums;      // [kSlots, threads] of Sum, from the thread's own column on
  unsigned row_bytes;       // of the sums
  uint32_t* bins;           // [kBins]
  uint32_t* row_maxima;     // [kRows]: code << 16 | 0xFFFF - channel: the first among equals is the largest
  uint32_t* token_octaves;  // [256]

  static constexpr unsigned kCounters = kBins + kRows + 256;
  static size_t bytes(unsigned threads) { return sizeof(uint32_t) * kCounters + sizeof(Sum) * kSlots * threads; }

  /// Cleared when all threads have made theirs.
  __device__ Shared() {
    Sum* all = dynamic_shared<Sum>();
    sums = reinterpret_cast<unsigned char*>(all + threadIdx.x);
    row_bytes = sizeof(Sum) * blockDim.x;
    bins = reinterpret_cast<uint32_t*>(all + kSlots * blockDim.x);
    row_maxima = bins + kBins;
    token_octaves = row_maxima + kRows;
    for (unsigned i = threadIdx.x; i < kCounters; i += blockDim.x) bins[i] = 0;
    for (unsigned slot = 0; slot < kSlots; ++slot) sum(slot) = 0;
  }
  __device__ Sum& sum(unsigned slot) { return *reinterpret_cast<Sum*>(sums + slot * row_bytes); }

  /// Counts a value that has a bin.
  __device__ void count(unsigned bits, unsigned code) {
    const unsigned bin = bin_of(code), slot = bin / kOctaveCodes,
                   m = bits % kOctaveCodes | hidden_bit(code >= kOctaveCodes);
    atomicAdd(&bins[bin], 1u);
    if constexpr (kEnergyOnly)
      sum(slot) += m * m;
    else
      sum(slot) += PackedSums::of(m, bits > kMagnitude);
  }
};

/// Moves the thread's sums, those of `channel`, into the tables.
template <class T, bool kEnergyOnly>
__device__ void flush_sums(const Part<T>& part, Shared<kEnergyOnly>& shared, int64_t channel) {
  const int64_t width = part.job.shape.width;
#pragma unroll 1
  for (unsigned slot = 0; slot < kSlots; ++slot) {
    const Word word = shared.sum(slot);
    if (word == 0) continue;
    shared.sum(slot) = 0;
    Word* to = part.moments(slot < kWindow ? slot + kFirstOctave : 0, channel);
    if constexpr (kEnergyOnly) {
      atomicAdd(to, word);
    } else {
      const PackedSums sums{word};
      const Word hidden = hidden_bit(slot < kWindow), m = sums.sum() + hidden * sums.count();
      atomicAdd(to, sums.count());
      atomicAdd(to + width, m);
      atomicAdd(to + 2 * width, sums.square() + 2 * hidden * sums.sum() + hidden * hidden * sums.count());
      atomicAdd(to + 3 * width, m - 2 * sums.negative());
    }
  }
}

/// Counts n rows from `row` on of the thread's channel in the tile that begins at channel `tile`.
template <class T, bool kEnergyOnly>
__device__ void count_tile(const Part<T>& part, Shared<kEnergyOnly>& shared, int64_t row, int n, int64_t tile) {
  constexpr int kAhead = 16;  // rows loaded before the first is used
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t channel = tile + threadIdx.x;
  const bool mine = channel < part.job.shape.width;
  const T* x = part.x + row * part.stride + channel;
  const unsigned behind = 0xFFFF - static_cast<unsigned>(channel);
  unsigned largest = 0;
  for (int from = 0; from < n; from += kAhead) {
    unsigned bits[kAhead], maximum = 0;  // of row `lane`
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      bits[i] = mine && from + i < n ? bits_of_value(x[(from + i) * part.stride]) : kNothing;
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const unsigned code = bits[i] & kMagnitude;
      unsigned finite = code;
      if (has_bin(code)) {
        shared.count(bits[i], code);
      } else {
        if (code >= kInfinity) finite = 0;
        if (bits[i] != kNothing) count_outside(part, bits[i], row + from + i, channel);
      }
      largest = finite > largest ? finite : largest;
      // A channel that is not there comes behind all others, hence never wins.
      const unsigned top = __reduce_max_sync(kAllLanes, finite * 0x10000 + behind);
      if (lane == i) maximum = top;
    }
    if (lane < kAhead) atomicMax(&shared.row_maxima[from + lane], maximum);
  }
  if (!mine) return;
  flush_sums(part, shared, channel);
  if (!kEnergyOnly)
    raise(&part.words[part.job.layout.channel_absmax + part.head * part.job.shape.width + channel], largest);
}

/// What is kept of whole rows, from their largest values, which are cleared for the next rows.
template <class T>
__device__ void count_rows(const Part<T>& part, uint32_t* row_maxima, uint32_t* token_octaves, int64_t row, int n) {
  const TapCount& job = part.job;
  for (int r = static_cast<int>(threadIdx.x); r < kRows; r += static_cast<int>(blockDim.x)) {
    const bool mine = r < n;  // the other lanes repeat the first row with a value that changes nothing
    const int64_t here = row + (mine ? r : 0);
    const unsigned top = row_maxima[r], code = mine ? top >> 16 : 0, first = 0xFFFF - (top & 0xFFFF);
    row_maxima[r] = 0;
    if (mine) atomicAdd(&token_octaves[code / kOctaveCodes], 1u);
    const TapRows& piece = rows_with(job, here);
    const int64_t position = piece.first_position + here - piece.row;
    raise_by_warp(part.words + job.layout.cells, piece.cell, code);
    raise_by_warp(part.words + job.layout.positions, 64 - __clzll(position), code);
    const Word last_place = (Word{1} << kPlaceBits) - 1;
    const Word absmax = Word{code} << kPlaceBits | (last_place - place_of(job, piece, here, first));
    const Word largest = warp_max(mine ? absmax : 0);
    if (r % kWarp == 0) raise(&part.words[job.layout.absmax + part.head], largest);
  }
}

__device__ double finite_double(unsigned bits) {
  return (bits & kMagnitude) < kInfinity ? __uint_as_float(bits << 16) : 0.0;
}

/// Squares of bf16 values are exact in double, so a fused multiply-add gives no other sum than the host's.
template <class T>
__device__ void raise_pairs(const Part<T>& part, int64_t row, int n) {
  const TapShape& s = part.job.shape;
  for (int64_t pair = threadIdx.x; pair < s.pairs; pair += blockDim.x) {
    const T* x = part.x + row * part.stride + (s.interleaved ? 2 * pair : pair);
    const int64_t other = s.interleaved ? 1 : s.pairs;
    double largest = 0.0;
#pragma unroll 8
    for (int r = 0; r < n; ++r) {
      const double a = finite_double(bits_of_value(x[r * part.stride])),
                   b = finite_double(bits_of_value(x[r * part.stride + other])), square = a * a + b * b;
      largest = square > largest ? square : largest;
    }
    // Bits of doubles that are not negative are ordered as the doubles are.
    raise(&part.words[part.job.layout.pairs + part.head * s.pairs + pair],
          static_cast<Word>(__double_as_longlong(largest)));
  }
}

template <class T, bool kEnergyOnly>
__global__ void accumulate_kernel(const __grid_constant__ TapCount job, int64_t rows_per_block) {
  const int64_t heads = job.shape.heads, width = job.shape.width, head = blockIdx.x % heads;
  const Part<T> part{job, static_cast<const T*>(job.x) + head * width, reinterpret_cast<Word*>(job.words), head,
                     heads * width};
  Shared<kEnergyOnly> shared;
  __syncthreads();
  const int64_t first = blockIdx.x / heads * rows_per_block;
  const int64_t end = first + rows_per_block < job.tokens ? first + rows_per_block : job.tokens;
  for (int64_t row = first; row < end; row += kRows) {
    const int n = static_cast<int>(end - row < kRows ? end - row : kRows);
    for (int64_t tile = 0; tile < width; tile += blockDim.x) count_tile(part, shared, row, n, tile);
    raise_pairs(part, row, n);
    __syncthreads();
    count_rows(part, shared.row_maxima, shared.token_octaves, row, n);
    __syncthreads();
  }
  Word* codes = part.words + job.layout.codes + head * kTapCodes;
  for (unsigned bin = threadIdx.x; bin < kBins; bin += blockDim.x)
    if (shared.bins[bin] != 0) atomicAdd(&codes[code_of(bin)], Word{shared.bins[bin]});
  Word* octaves = part.words + job.layout.token_octaves + head * 256;
  for (unsigned o = threadIdx.x; o < 256; o += blockDim.x)
    if (shared.token_octaves[o] != 0) atomicAdd(&octaves[o], Word{shared.token_octaves[o]});
}

/// Threads that suit the width: whole warps, at most 128 (several blocks' sums have to fit side by side), few idle.
unsigned threads_for(int64_t width) {
  const auto rounded = [](int64_t n, int64_t to) { return (n + to - 1) / to * to; };
  if (width <= 128) return static_cast<unsigned>(rounded(width, kWarp));
  return rounded(width, 96) < rounded(width, 128) ? 96 : 128;
}

}  // namespace

// ---------------------------------------------------------------- launcher

void accumulate(DType t, const TapCount& job, int n_processors, cudaStream_t stream) {
  constexpr int64_t kBlocks = 16;      // for each processor, which runs 3 or more at once
  constexpr int64_t kMostRows = 4096;  // a block's flush is small against that
  const unsigned threads = threads_for(job.shape.width);
  const int64_t wanted = job.tokens * job.shape.heads / (kBlocks * n_processors) / kRows * kRows;
  const int64_t rows = wanted < kRows ? kRows : wanted > kMostRows ? kMostRows : wanted;
  const dim3 grid(n_blocks(int64_t{n_blocks(job.tokens, rows)} * job.shape.heads, 1));
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    const auto start = [&]<bool kEnergyOnly>() {
      launch(KVCAL_KERNEL(accumulate_kernel<T, kEnergyOnly>), grid, dim3(threads), Shared<kEnergyOnly>::bytes(threads),
             stream, job, rows);
    };
    if (job.shape.kept == TapSums::Energy)
      start.template operator()<true>();
    else
      start.template operator()<false>();
  });
}

}  // namespace kvcal::cuda
