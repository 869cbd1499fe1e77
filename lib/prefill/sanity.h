// Does the model predict text at all? A few prompts run to the logits; a mean negative log-likelihood near that of
// guessing says that the checkpoint or its loading is broken.
#pragma once

#include "base/json.h"
#include "prefill/runner.h"

namespace kvcal {

class SanityCheck final : public LogitsSink {
 public:
  explicit SanityCheck(int64_t vocab) : vocab_(vocab) {}

  void hidden(Ops& op, const Tensor& x, const Batch& batch, Head& head) override;

  int64_t n_tokens() const { return n_tokens_; }                                             // predicted ones
  double mean_nll() const { return n_tokens_ ? sum_ / static_cast<double>(n_tokens_) : 0; }  // nats per token
  double uniform_nll() const;                                                                // ln(vocab)
  /// Near or above guessing: within 10 % of it.
  bool suspicious() const { return n_tokens_ > 0 && !(mean_nll() < 0.9 * uniform_nll()); }

  /// {"mean_nll", "uniform_nll", "n_tokens"}, or null when nothing was predicted.
  Json to_json() const;

 private:
  int64_t vocab_;
  int64_t n_tokens_ = 0;
  double sum_ = 0;
};

}  // namespace kvcal
