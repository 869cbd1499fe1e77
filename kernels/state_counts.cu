// Histograms of recurrent states into the tables of ops/tap_tables.h, without sums by channel. A block takes some
// numbers of one head of one state: all states of a batch that are counted at a time are one launch, since those of
// short prompts are many and small. The bins are those of statistics.cu; all sums are of integers: grid and order
// cannot be seen.
#include "kernels/device/shared.cuh"
#include "kernels/device/tally.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"

namespace kvcal::cuda {
namespace {

constexpr int kThreads = 256, kAhead = 8;   // numbers that a thread loads before it uses the first
constexpr int64_t kNumbers = 16384;         // of a block: a flush of its bins is small against that
constexpr unsigned kNothing = ~0u;          // the code of a number that is not there: it has no bin and is not finite
constexpr Word kLastIndex = 0xFFFFFFFFull;  // numbers of a head are fewer

/// Of one head of one state.
struct Part {
  const StateCount& job;
  const TapRows& row;
  Word* words;
  int64_t head;

  __device__ Word place_of(int64_t index) const { return static_cast<Word>(row.first_rank * job.shape.width + index); }
  __device__ Word* codes() const { return words + job.layout.codes + head * kTapCodes; }
};

/// `part` by value: behind a reference it would be in local memory.
__device__ __noinline__ void count_outside(Part part, unsigned code, int64_t index) {
  atomicAdd(&part.codes()[code], Word{1});
  if (code >= kInfinity)
    raise(&part.words[part.job.layout.non_finite + part.head], ~(part.place_of(index) << 1 | (code > kInfinity)));
}

/// The largest finite code << 32 | kLastIndex - its index, the first among equals; counts numbers [first, end) of x.
__device__ Word count_numbers(const Part& part, const float* x, uint32_t* bins, int64_t first, int64_t end) {
  Word top = kLastIndex - static_cast<Word>(first);
  for (int64_t from = first + threadIdx.x; from < end; from += kAhead * kThreads) {
    unsigned code[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int64_t index = from + i * kThreads;
      code[i] = index < end ? bits_of_value(x[index]) & kMagnitude : kNothing;
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (code[i] == kNothing) continue;
      const int64_t index = from + i * kThreads;
      if (has_bin(code[i]))
        atomicAdd(&bins[bin_of(code[i])], 1u);
      else
        count_outside(part, code[i], index);
      const Word here = Word{code[i]} << 32 | (kLastIndex - static_cast<Word>(index));
      if (code[i] < kInfinity && here > top) top = here;
    }
  }
  return top;
}

__global__ void count_states_kernel(const __grid_constant__ StateCount job, int64_t parts) {
  KVCAL_SHARED(uint32_t, bins, kBins);
  const int64_t heads = job.shape.heads, width = job.shape.width, head = blockIdx.x % heads,
                part_of_state = blockIdx.x / heads, first = part_of_state % parts * kNumbers,
                end = first + kNumbers < width ? first + kNumbers : width;
  const StateRow& state = job.states[part_of_state / parts];
  const Part part{job, state.row, reinterpret_cast<Word*>(job.words), head};
  for (unsigned bin = threadIdx.x; bin < kBins; bin += kThreads) bins[bin] = 0;
  __syncthreads();
  const Word top = warp_max(count_numbers(part, state.numbers + head * width, bins, first, end));
  if (threadIdx.x % kWarp == 0) {
    const Word code = top >> 32, last_place = (Word{1} << kPlaceBits) - 1;
    const auto index = static_cast<int64_t>(kLastIndex - (top & kLastIndex));
    raise(&part.words[job.layout.absmax + head], code << kPlaceBits | (last_place - part.place_of(index)));
    raise(&part.words[job.layout.cells + state.row.cell], code);
    raise(&part.words[job.layout.positions + 64 - __clzll(state.row.first_position)], code);
  }
  __syncthreads();
  for (unsigned bin = threadIdx.x; bin < kBins; bin += kThreads)
    if (bins[bin] != 0) atomicAdd(&part.codes()[code_of(bin)], Word{bins[bin]});
}

}  // namespace

// ---------------------------------------------------------------- launcher

void count_states(const StateCount& job, cudaStream_t stream) {
  const int64_t parts = (job.shape.width + kNumbers - 1) / kNumbers;
  launch(KVCAL_KERNEL(count_states_kernel), dim3(n_blocks(job.n_states * parts * job.shape.heads, 1)), dim3(kThreads),
         0, stream, job, parts);
}

}  // namespace kvcal::cuda
