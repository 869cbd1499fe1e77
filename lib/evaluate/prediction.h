// Two predictions of the next token, compared.
#pragma once

#include <cstdint>
#include <span>

namespace kvcal {

struct PredictionDifference {
  bool finite = true;        // else the variant's logits are not, and the rest says nothing
  double kl = 0;             // KL(reference, variant) in nats; 0 where the logits are equal
  double nll_reference = 0;  // -ln of the probability of the token that follows; 0 where none does
  double nll_variant = 0;
  bool same_top = true;  // the largest logit is that of the same token; of equal ones the first counts
};

/// softmax(logits), of one row; sums are in double (exponentials.h).
class Prediction {
 public:
  /// logits [vocab], which must outlive it.
  explicit Prediction(std::span<const float> logits);
  /// Also e [vocab]: e^(x - largest) of each, which its probability is a share of.
  Prediction(std::span<const float> logits, std::span<double> e);

  bool is_finite() const { return finite_; }
  size_t top() const { return top_; }
  double sum() const { return sum_; }  // of e^(x - largest)
  double largest() const { return static_cast<double>(logits_[top_]); }
  double log_sum() const { return log_sum_; }
  double log_of(size_t token) const { return static_cast<double>(logits_[token]) - largest() - log_sum_; }
  std::span<const float> logits() const { return logits_; }

 private:
  void look();

  std::span<const float> logits_;
  double sum_ = 0, log_sum_ = 0;
  size_t top_ = 0;
  bool finite_ = true;
};

/// What all variants of a row are compared with: its exponentials are computed once.
class ReferencePrediction {
 public:
  /// logits [vocab], and as much room for their exponentials: both must outlive it.
  ReferencePrediction(std::span<const float> logits, std::span<double> room) : prediction_(logits, room), e_(room) {}

  bool is_finite() const { return prediction_.is_finite(); }

  /// Both are finite or the result says otherwise; next: the token that follows, -1 where there is none.
  PredictionDifference difference(std::span<const float> variant, int32_t next) const;

 private:
  Prediction prediction_;
  std::span<const double> e_;  // [vocab]
};

}  // namespace kvcal
