// Which experts a token goes to: scores in f32, groups, choice, weights.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/math.h"

namespace kvcal::cpu {
namespace {

constexpr float kTaken = -std::numeric_limits<float>::infinity();

/// Probabilities of one row: softmax in f32.
template <class T>
void softmax(const T* logits, float* p, int64_t n) {
  float top = load(logits, 1)[0];
  for (int64_t i = 1; i < n; ++i) {
    const float x = load(logits + i, 1)[0];
    top = x > top ? x : top;
  }
  F32x8 sums{};
  for (int64_t i = 0; i < n; i += kLanes) {
    F32x8 e = exp(load(logits + i, n - i) - top);
    for (int64_t l = n - i; l < kLanes; ++l) e[l] = 0.0f;
    sums += e;
    store(p + i, e, n - i);
  }
  const float total = sum(sums);
  for (int64_t i = 0; i < n; i += kLanes) store(p + i, load(p + i, n - i) / total, n - i);
}

/// The index of the largest that is not taken; ties go to the lower one. A NaN is larger than nothing and is taken when
/// only such are left.
size_t best_of(std::span<const float> scores) {
  size_t best = 0;
  while (best + 1 < scores.size() && scores[best] == kTaken) ++best;
  for (size_t i = best + 1; i < scores.size(); ++i)
    if (scores[i] > scores[best]) best = i;
  return best;
}

/// One row: its scores, and what the choice is made by.
class Choice {
 public:
  Choice(const RoutingSpec& spec, int64_t n)
      : spec_(spec), scores_(static_cast<size_t>(n)), biased_(scores_), best_(scores_) {}

  template <class T>
  void run(const T* logits, int32_t* experts, float* weights) {
    const auto n = static_cast<int64_t>(scores_.size());
    if (spec_.scoring == Scoring::Softmax)
      softmax(logits, scores_.data(), n);
    else
      for (int64_t i = 0; i < n; i += kLanes) {
        const F32x8 x = load(logits + i, n - i);
        store(scores_.data() + i, spec_.scoring == Scoring::Sigmoid ? sigmoid(x) : x, n - i);
      }
    biased_ = scores_;
    if (spec_.bias)
      for (size_t i = 0; i < biased_.size(); ++i) biased_[i] += spec_.bias.as<float>()[i];
    if (spec_.n_groups > spec_.k_groups) keep_best_groups();
    choose<T>(experts, weights);
  }

 private:
  void keep_best_groups() {
    const size_t groups = static_cast<size_t>(spec_.n_groups), size = biased_.size() / groups;
    std::vector<float> rank(groups, 0.0f);
    for (size_t g = 0; g < groups; ++g) {
      const std::span<float> members(best_.data(), size);
      std::copy_n(biased_.data() + g * size, size, members.data());
      for (int64_t j = 0; j < spec_.group_best; ++j) {
        const size_t i = best_of(members);
        rank[g] += members[i];
        members[i] = kTaken;
      }
    }
    std::vector<bool> kept(groups, false);
    for (int64_t j = 0; j < spec_.k_groups; ++j) {
      const size_t g = best_of(rank);
      kept[g] = true;
      rank[g] = kTaken;
    }
    for (size_t i = 0; i < biased_.size(); ++i)
      if (!kept[i / size]) biased_[i] = kTaken;
  }

  /// Its softmax among those that are left and near it, taken ones being 0 there; T: the type of the logits.
  template <class T>
  float share_of_best(float best) const {
    const auto n = static_cast<int64_t>(biased_.size());
    const float limit = rounded_to<T>(F32x8{2 * spec_.jitter})[0];
    float sum = 0.0f;
    for (int64_t i = 0; i < n; i += kLanes) {
      const F32x8 x = load(biased_.data() + i, n - i), e = exp(x - best), difference = rounded_to<T>(best - x);
      F32x8 size;
      for (int64_t l = 0; l < kLanes; ++l) size[l] = std::max(std::fabs(x[l]), best);
      const F32x8 distance = rounded_to<T>(difference / size);
      for (int64_t l = 0; l < std::min<int64_t>(kLanes, n - i); ++l)
        if (!(distance[l] > limit)) sum += e[l];
    }
    return 1.0f / sum;
  }

  template <class T>
  void choose(int32_t* experts, float* weights) {
    float total = 0.0f;
    for (int64_t j = 0; j < spec_.k; ++j) {
      const size_t i = best_of(biased_);
      weights[j] = spec_.scoring == Scoring::NearBest ? share_of_best<T>(biased_[i]) : scores_[i];
      biased_[i] = kTaken;
      experts[j] = static_cast<int32_t>(i);
      total += weights[j];
    }
    const float divisor = spec_.renormalize ? std::max(total, spec_.least_sum) : 1.0f;
    for (int64_t j = 0; j < spec_.k; ++j) weights[j] = weights[j] / divisor * spec_.scale;
  }

  const RoutingSpec& spec_;
  std::vector<float> scores_, biased_, best_;
};

}  // namespace

Routing CpuBackend::do_route(const Tensor& logits, const RoutingSpec& spec) {
  const int64_t rows = logits.dim(0), n = logits.dim(1);
  const Routing r{temporary({rows, spec.k}, DType::I32), temporary({rows, spec.k}, DType::F32)};
  visit_activation(logits.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel_rows(rows, n * (spec.k + 4), [&](int64_t begin, int64_t end) {
      Choice choice(spec, n);
      for (int64_t t = begin; t < end; ++t)
        choice.run(logits.as<T>() + t * n, r.experts.as<int32_t>() + t * spec.k, r.weights.as<float>() + t * spec.k);
    });
  });
  return r;
}

}  // namespace kvcal::cpu
