// Mixture of experts: the stable sort of rows by expert, and the weighted sum of what the experts gave.
#include "kernels/device/real.cuh"
#include "kernels/device/shared.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

constexpr int kThreads = 256;

/// counts[block][expert]: choices of kThreads consecutive (token, j) that fell on the expert.
__global__ void expert_counts_kernel(const int32_t* __restrict__ experts, int32_t* __restrict__ counts, int64_t n,
                                     int n_experts) {
  int32_t* count = dynamic_shared<int32_t>();
  for (int e = static_cast<int>(threadIdx.x); e < n_experts; e += kThreads) count[e] = 0;
  __syncthreads();
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i < n) atomicAdd(&count[experts[i]], 1);
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < n_experts; e += kThreads)
    counts[int64_t{blockIdx.x} * n_experts + e] = count[e];
}

/// The sum of `value` over the threads before this one. place: kThreads of the block.
__device__ inline int32_t sum_before(int32_t value, int32_t* place) {
  const auto thread = static_cast<int>(threadIdx.x);
  int32_t sum = value;
  for (int distance = 1; distance < kThreads; distance *= 2) {
    place[thread] = sum;
    __syncthreads();
    if (thread >= distance) sum += place[thread - distance];
    __syncthreads();
  }
  return sum - value;
}

/// A block an expert. counts become those of earlier blocks of choices; totals[expert]: all of its choices.
__global__ void earlier_counts_kernel(int32_t* __restrict__ counts, int32_t* __restrict__ totals, int64_t blocks,
                                      int n_experts) {
  KVCAL_SHARED(int32_t, place, kThreads);
  const int64_t expert = blockIdx.x, each = (blocks + kThreads - 1) / kThreads, first = threadIdx.x * each;
  const int64_t end = first + each < blocks ? first + each : blocks;
  int32_t own = 0;
  for (int64_t b = first; b < end; ++b) own += counts[b * n_experts + expert];
  int32_t earlier = sum_before(own, place);
  if (threadIdx.x == kThreads - 1) totals[expert] = earlier + own;
  for (int64_t b = first; b < end; ++b) {
    const int32_t count = counts[b * n_experts + expert];
    counts[b * n_experts + expert] = earlier;
    earlier += count;
  }
}

/// One block. offsets [n_experts + 1]: from each expert's total, behind the first place, to where its slots begin.
__global__ void expert_offsets_kernel(int32_t* __restrict__ offsets, int n_experts) {
  KVCAL_SHARED(int32_t, place, kThreads);
  KVCAL_SHARED(int32_t, so_far, 1);
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread == 0) so_far[0] = offsets[0] = 0;
  for (int e = 0; e < n_experts; e += kThreads) {
    const int32_t total = e + thread < n_experts ? offsets[1 + e + thread] : 0;
    const int32_t end = sum_before(total, place) + total + so_far[0];
    __syncthreads();  // everyone has read it
    if (e + thread < n_experts) offsets[1 + e + thread] = end;
    if (thread == kThreads - 1) so_far[0] = end;  // read behind the barriers of the next sum_before()
  }
}

/// The slot of each choice: experts ascending, then choices in order, whatever the blocks do: a stable counting sort.
__global__ void expert_slots_kernel(const int32_t* __restrict__ experts, const int32_t* __restrict__ earlier,
                                    const int32_t* __restrict__ offsets, int64_t* __restrict__ token_of_slot,
                                    int32_t* __restrict__ slot_of_choice, int64_t n, int64_t k, int n_experts) {
  KVCAL_SHARED(int32_t, block, kThreads);
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const int32_t expert = i < n ? experts[i] : -1;
  block[threadIdx.x] = expert;
  __syncthreads();
  if (i >= n) return;
  int32_t slot = offsets[expert] + earlier[int64_t{blockIdx.x} * n_experts + expert];
  for (unsigned before = 0; before < threadIdx.x; ++before) slot += block[before] == expert;
  token_of_slot[slot] = i / k;
  slot_of_choice[i] = slot;
}

/// y[token] = sum of weight * result over the token's slots, ascending: in order of the expert's index. A block per
/// token; the order of its choices in shared memory.
template <class T>
__global__ void combine_experts_kernel(const float* __restrict__ results, const float* __restrict__ weights,
                                       const int32_t* __restrict__ slots, T* __restrict__ y, int k, int64_t dim) {
  int* order = dynamic_shared<int>();
  slots += int64_t{blockIdx.x} * k;
  weights += int64_t{blockIdx.x} * k;
  for (int j = static_cast<int>(threadIdx.x); j < k; j += kThreads) {
    int rank = 0;
    for (int other = 0; other < k; ++other) rank += slots[other] < slots[j];
    order[rank] = j;
  }
  __syncthreads();
  for (int64_t c = threadIdx.x; c < dim; c += kThreads) {
    float sum = 0.0f;
    for (int i = 0; i < k; ++i) sum += weights[order[i]] * results[slots[order[i]] * dim + c];
    y[int64_t{blockIdx.x} * dim + c] = narrow<T>(sum);
  }
}

}  // namespace

// ---------------------------------------------------------------- launchers

int64_t sort_blocks(const RoutingShape& shape) { return n_blocks(shape.tokens * shape.k, kThreads); }

void sort_by_expert(const int32_t* experts, const ExpertSort& sort, const RoutingShape& shape, cudaStream_t stream) {
  const int64_t n = shape.tokens * shape.k;
  const auto n_experts = static_cast<int>(shape.n_experts);
  const dim3 blocks(n_blocks(n, kThreads)), threads(kThreads);
  launch(KVCAL_KERNEL(expert_counts_kernel), blocks, threads, sizeof(int32_t) * static_cast<size_t>(n_experts), stream,
         experts, sort.counts, n, n_experts);
  launch(KVCAL_KERNEL(earlier_counts_kernel), dim3(n_blocks(shape.n_experts, 1)), threads, 0, stream, sort.counts,
         sort.offsets + 1, sort_blocks(shape), n_experts);
  launch(KVCAL_KERNEL(expert_offsets_kernel), dim3(1), threads, 0, stream, sort.offsets, n_experts);
  launch(KVCAL_KERNEL(expert_slots_kernel), blocks, threads, 0, stream, experts, sort.counts, sort.offsets,
         sort.token_of_slot, sort.slot_of_choice, n, shape.k, n_experts);
}

void combine_experts(DType t, const float* results, const float* weights, const int32_t* slots, void* y,
                     const RoutingShape& shape, int64_t dim, cudaStream_t stream) {
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    // In fours: ptxas reads what is left of them at once, also what is not asked for.
    const size_t order = sizeof(int) * 4 * static_cast<size_t>((shape.k + 3) / 4);
    launch(KVCAL_KERNEL(combine_experts_kernel<T>), dim3(n_blocks(shape.tokens, 1)), dim3(kThreads), order, stream,
           results, weights, slots, static_cast<T*>(y), static_cast<int>(shape.k), dim);
  });
}

}  // namespace kvcal::cuda
