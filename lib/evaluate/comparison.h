// Compares what variants predict with what the reference predicts, at every position of every prompt.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "evaluate/prediction.h"
#include "prefill/runner.h"

namespace kvcal {

/// Of one position of a prompt.
struct ComparedToken {
  int64_t prompt = 0, position = 0;
  bool has_next = false;  // a token of the prompt follows
  PredictionDifference difference;
};

/// The sinks of a run in which the reference and each variant are a group, the reference first, with equal sequences of
/// one prompt each. Logits exist for kRows tokens at a time: those of a batch may be larger than the model.
class Comparison {
 public:
  static constexpr int64_t kRows = 16;

  /// Refers to prompts (Segment::prompt indexes them) and pool.
  Comparison(const std::vector<PromptTokens>& prompts, size_t n_variants, ThreadPool& pool);
  ~Comparison();

  LogitsSink& of_reference();
  LogitsSink& of_variant(size_t i);

  /// By prompt and position, whatever the batches were.
  std::vector<ComparedToken> take(size_t variant);

  /// Bytes of logits and probabilities that exist at a time, for each entry of the vocabulary.
  static constexpr int64_t kBytesPerEntry =
      kRows * static_cast<int64_t>(2 * sizeof(float) + 2 * sizeof(float) + sizeof(double));

 private:
  class ReferenceSink;
  class VariantSink;
  void keep(Storage logits, const Batch& batch);
  void compare(const Storage& logits, const Batch& batch, size_t variant);

  const std::vector<PromptTokens>& prompts_;
  ThreadPool& pool_;
  std::unique_ptr<ReferenceSink> reference_sink_;
  std::vector<std::unique_ptr<VariantSink>> variant_sinks_;
  Storage reference_logits_;                        // F32 [rows, vocab]
  std::vector<ReferencePrediction> reference_;      // of each row
  std::vector<std::vector<ComparedToken>> tokens_;  // by variant
};

}  // namespace kvcal
