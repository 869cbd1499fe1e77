#include "evaluate/prediction.h"

#include <algorithm>
#include <cmath>

#include "base/portable_math.h"
#include "evaluate/exponentials.h"

namespace kvcal {

Prediction::Prediction(std::span<const float> logits) : logits_(logits) {
  look();
  if (!finite_) return;
  sum_ = exp_sum(logits, logits[top_]);
  log_sum_ = portable_log(sum_);
}

Prediction::Prediction(std::span<const float> logits, std::span<double> e) : logits_(logits) {
  look();
  if (!finite_) return;
  sum_ = exp_sum(logits, logits[top_], e);
  log_sum_ = portable_log(sum_);
}

void Prediction::look() {
  finite_ = std::ranges::all_of(logits_, [](float x) { return std::isfinite(x); });
  if (finite_) top_ = static_cast<size_t>(std::ranges::max_element(logits_) - logits_.begin());
}

// KL = sum p (ln p - ln q), the logarithms written out: what does not depend on the token is taken out of the sum.
PredictionDifference ReferencePrediction::difference(std::span<const float> logits, int32_t next) const {
  const Prediction variant(logits);
  PredictionDifference difference;
  difference.finite = is_finite() && variant.is_finite();
  if (!difference.finite) return difference;
  const double of_largest = prediction_.largest() - variant.largest(),
               of_tokens = weighted_difference(e_, prediction_.logits(), logits, of_largest) / prediction_.sum();
  difference.kl = std::max(of_tokens + (variant.log_sum() - prediction_.log_sum()), 0.0);  // below it is rounding
  difference.same_top = prediction_.top() == variant.top();
  if (next < 0) return difference;
  difference.nll_reference = -prediction_.log_of(static_cast<size_t>(next));
  difference.nll_variant = -variant.log_of(static_cast<size_t>(next));
  return difference;
}

}  // namespace kvcal
