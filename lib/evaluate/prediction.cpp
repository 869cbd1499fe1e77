#include "evaluate/prediction.h"

#include <algorithm>
#include <cmath>

#include "base/portable_math.h"

namespace kvcal {
namespace {

// e^-50 is below the last bit of any sum here.
constexpr double kNegligible = -50;

}  // namespace

Prediction::Prediction(std::span<const float> logits) : logits_(logits) {
  finite_ = std::ranges::all_of(logits, [](float x) { return std::isfinite(x); });
  if (!finite_) return;
  top_ = static_cast<size_t>(std::ranges::max_element(logits) - logits.begin());
  largest_ = static_cast<double>(logits[top_]);
  double sum = 0;
  for (const float x : logits) {
    const double below = static_cast<double>(x) - largest_;
    if (below > kNegligible) sum += portable_exp(below);
  }
  log_sum_ = portable_log(sum);
}

ReferencePrediction::ReferencePrediction(std::span<const float> logits) : prediction_(logits), p_(logits.size()) {
  if (!is_finite()) return;
  for (size_t i = 0; i < p_.size(); ++i) {
    const double log_p = prediction_.log_of(i);
    p_[i] = log_p > kNegligible ? portable_exp(log_p) : 0;
  }
}

PredictionDifference ReferencePrediction::difference(std::span<const float> logits, int32_t next) const {
  const Prediction variant(logits);
  PredictionDifference difference;
  difference.finite = is_finite() && variant.is_finite();
  if (!difference.finite) return difference;
  for (size_t i = 0; i < p_.size(); ++i)
    if (p_[i] > 0) difference.kl += p_[i] * (prediction_.log_of(i) - variant.log_of(i));
  difference.kl = std::max(difference.kl, 0.0);  // below it is rounding
  difference.same_top = prediction_.top() == variant.top();
  if (next < 0) return difference;
  difference.nll_reference = -prediction_.log_of(static_cast<size_t>(next));
  difference.nll_variant = -variant.log_of(static_cast<size_t>(next));
  return difference;
}

}  // namespace kvcal
