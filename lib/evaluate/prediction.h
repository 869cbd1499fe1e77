// Two predictions of the next token, compared.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace kvcal {

struct PredictionDifference {
  bool finite = true;        // else the variant's logits are not, and the rest says nothing
  double kl = 0;             // KL(reference, variant) in nats; 0 where the logits are equal
  double nll_reference = 0;  // -ln of the probability of the token that follows; 0 where none does
  double nll_variant = 0;
  bool same_top = true;  // the largest logit is that of the same token; of equal ones the first counts
};

/// softmax(logits), of one row; all sums are in double and in order of tokens.
class Prediction {
 public:
  /// logits [vocab], which must outlive it.
  explicit Prediction(std::span<const float> logits);

  bool is_finite() const { return finite_; }
  size_t top() const { return top_; }
  double log_of(size_t token) const { return static_cast<double>(logits_[token]) - largest_ - log_sum_; }
  size_t vocab() const { return logits_.size(); }

 private:
  std::span<const float> logits_;
  double largest_ = 0, log_sum_ = 0;  // of exp(x - largest)
  size_t top_ = 0;
  bool finite_ = true;
};

/// What all variants of a row are compared with: its probabilities are computed once.
class ReferencePrediction {
 public:
  explicit ReferencePrediction(std::span<const float> logits);

  bool is_finite() const { return prediction_.is_finite(); }

  /// Both are finite or the result says otherwise; next: the token that follows, -1 where there is none.
  PredictionDifference difference(std::span<const float> variant, int32_t next) const;

 private:
  Prediction prediction_;
  std::vector<double> p_;  // [vocab]; 0 where it is negligible
};

}  // namespace kvcal
