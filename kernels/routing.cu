// Which experts a token goes to: scores in f32, groups, choice, weights. The rules are those of
// lib/ops/cpu/routing.cpp, ties and sums included; a warp has a token.
#include "kernels/device/real.cuh"
#include "kernels/device/reduce.cuh"
#include "kernels/kernels.h"
#include "kernels/runtime/launch.h"
#include "ops/visit_activation.h"

namespace kvcal::cuda {
namespace {

constexpr int kWarps = 4;
constexpr float kTaken = -INFINITY;

struct Best {
  float score;
  int index;  // -1: none
};

/// The larger score, among equals the lower index; NaN is larger than nothing.
__device__ Best better(Best a, Best b) {
  if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
  if (a.score > b.score || b.score > a.score) return a.score > b.score ? a : b;
  return a.index < b.index ? a : b;
}

/// Among n scores, from `lane` on in steps of `lanes`.
__device__ Best best_of(const float* scores, int n, int lane, int lanes) {
  Best best{0.0f, -1};
  for (int i = lane; i < n; i += lanes)
    if (scores[i] != kTaken) best = better(best, {scores[i], i});
  return best;
}

/// Among n scores, by the whole warp; the last one when all are taken.
__device__ int best_of_warp(const float* scores, int n, int lane) {
  Best best = best_of(scores, n, lane, kWarp);
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2)
    best = better(best, {__shfl_xor_sync(kAllLanes, best.score, lanes), __shfl_xor_sync(kAllLanes, best.index, lanes)});
  return best.index < 0 ? n - 1 : best.index;
}

/// What a warp has in shared memory.
struct Scores {
  float *score, *biased;  // [n_experts]; biased: by which is chosen, kTaken once it is
  float *spare, *rank;    // [n_experts], [n_groups]: only where there are groups

  __device__ Scores(float* memory, const RoutingShape& s)
      : score(memory), biased(score + s.n_experts), spare(biased + s.n_experts), rank(spare + s.n_experts) {}
};

size_t scores_bytes(const RoutingShape& s) {
  return sizeof(float) * static_cast<size_t>(s.n_groups > s.k_groups ? 3 * s.n_experts + s.n_groups : 2 * s.n_experts);
}

/// Each lane makes and reads its own scores: expert e belongs to lane e % 32.
template <class T>
__device__ void make_scores(const T* logits, const Scores& m, const RoutingShape& s, int lane) {
  const int n = static_cast<int>(s.n_experts);
  if (s.scoring == Scoring::Softmax) {
    float top = -INFINITY, sum = 0.0f;
    for (int e = lane; e < n; e += kWarp) top = fmaxf(top, widen(logits[e]));
    top = warp_reduce(top, Maximum());
    for (int e = lane; e < n; e += kWarp) sum += m.score[e] = expf(widen(logits[e]) - top);
    sum = warp_reduce(sum, Sum());
    for (int e = lane; e < n; e += kWarp) m.score[e] /= sum;
  } else {
    for (int e = lane; e < n; e += kWarp) {
      const float x = widen(logits[e]);
      m.score[e] = s.scoring == Scoring::Sigmoid ? exact_sigmoid(x) : x;
    }
  }
  for (int e = lane; e < n; e += kWarp) m.biased[e] = m.score[e] + (s.bias ? s.bias[e] : 0.0f);
}

/// A lane ranks a group; then the best groups are found as experts are, and the others taken out of the choice. Group g
/// belongs to lane g % 32.
__device__ void keep_best_groups(const Scores& m, const RoutingShape& s, int lane) {
  const int n = static_cast<int>(s.n_experts), groups = static_cast<int>(s.n_groups), size = n / groups;
  for (int e = lane; e < n; e += kWarp) m.spare[e] = m.biased[e];
  __syncwarp();
  for (int g = lane; g < groups; g += kWarp) {
    float sum = 0.0f, *members = m.spare + g * size;
    for (int64_t j = 0; j < s.group_best; ++j) {
      const Best best = best_of(members, size, 0, 1);
      const int i = best.index < 0 ? size - 1 : best.index;
      sum += members[i];
      members[i] = kTaken;
    }
    m.rank[g] = sum;
  }
  __syncwarp();
  for (int e = lane; e < n; e += kWarp) m.spare[e] = 0.0f;  // from now on: whether its group is kept
  for (int64_t j = 0; j < s.k_groups; ++j) {
    const int g = best_of_warp(m.rank, groups, lane);
    if (lane == g % kWarp) m.rank[g] = kTaken;
    for (int e = lane; e < n; e += kWarp)
      if (e / size == g) m.spare[e] = 1.0f;
  }
  for (int e = lane; e < n; e += kWarp)
    if (m.spare[e] == 0.0f) m.biased[e] = kTaken;
}

/// Of the warp: the best's softmax among those that are left and near it, taken ones being 0 there; T: the type of the
/// logits.
template <class T>
__device__ float share_of_best(const Scores& m, const RoutingShape& s, float best, int lane) {
  const float limit = rounded_to<T>(2.0f * s.jitter);
  float sum = 0.0f;
  for (int e = lane; e < static_cast<int>(s.n_experts); e += kWarp) {
    const float x = m.biased[e];
    const float difference = rounded_to<T>(best - x), distance = rounded_to<T>(difference / fmaxf(fabsf(x), best));
    if (!(distance > limit)) sum += expf(x - best);
  }
  return 1.0f / warp_reduce(sum, Sum());
}

template <class T>
__global__ void route_kernel(const T* __restrict__ logits, int32_t* __restrict__ experts, float* __restrict__ weights,
                             RoutingShape s) {
  const int lane = static_cast<int>(threadIdx.x), n = static_cast<int>(s.n_experts);
  const int64_t token = int64_t{blockIdx.x} * kWarps + threadIdx.y;
  if (token >= s.tokens) return;
  const Scores m(dynamic_shared<float>() + threadIdx.y * s.shared_floats, s);
  make_scores(logits + token * n, m, s, lane);
  if (s.n_groups > s.k_groups) keep_best_groups(m, s, lane);
  experts += token * s.k;
  weights += token * s.k;
  float total = 0.0f;
  for (int64_t j = 0; j < s.k; ++j) {
    const int e = best_of_warp(m.biased, n, lane);
    __syncwarp();
    const float score = s.scoring == Scoring::NearBest ? share_of_best<T>(m, s, m.biased[e], lane) : m.score[e];
    __syncwarp();
    total += score;
    if (lane != e % kWarp) continue;
    m.biased[e] = kTaken;
    experts[j] = e;
    weights[j] = score;
  }
  __syncwarp();
  if (lane != 0) return;
  const float divisor = !s.renormalize ? 1.0f : total < s.least_sum ? s.least_sum : total;
  for (int64_t j = 0; j < s.k; ++j) weights[j] = weights[j] / divisor * s.scale;
}

}  // namespace

// ---------------------------------------------------------------- launcher

void route(DType t, const void* logits, int32_t* experts, float* weights, RoutingShape s, cudaStream_t stream) {
  s.shared_floats = static_cast<int64_t>(scores_bytes(s) / sizeof(float));
  visit_activation(t, [&](auto tag) {
    using T = decltype(tag);
    launch(KVCAL_KERNEL(route_kernel<T>), dim3(n_blocks(s.tokens, kWarps)), dim3(kWarp, kWarps),
           kWarps * scores_bytes(s), stream, static_cast<const T*>(logits), experts, weights, s);
  });
}

}  // namespace kvcal::cuda
