// Whether the model predicts text at all: a few prompts run to the logits, and a mean negative log-likelihood near that
// of guessing means that the checkpoint is damaged or loaded wrongly.
#pragma once

#include "prefill/runner.h"

namespace kvcal {

class SanityCheck final : public LogitsSink {
 public:
  /// `prompts` (Segment::prompt indexes it) must outlive the check: their ids stand in messages.
  SanityCheck(int64_t vocab, const std::vector<PromptTokens>& prompts) : vocab_(vocab), prompts_(prompts) {}

  void hidden(Ops& op, const Tensor& x, const Batch& batch, Head& head) override;

  int64_t n_tokens() const { return n_tokens_; }                                             // predicted ones
  double mean_nll() const { return n_tokens_ ? sum_ / static_cast<double>(n_tokens_) : 0; }  // nats per token
  double uniform_nll() const;                                                                // ln(vocab)
  /// Near or above guessing: within 10 % of it, over enough tokens to say so.
  bool suspicious() const { return n_tokens_ >= kEnoughTokens && !(mean_nll() < 0.9 * uniform_nll()); }

 private:
  const std::string& prompt_at(const Batch& batch, int64_t row) const;

  static constexpr int64_t kEnoughTokens = 16;
  int64_t vocab_;
  const std::vector<PromptTokens>& prompts_;
  int64_t n_tokens_ = 0;
  double sum_ = 0;
};

}  // namespace kvcal
