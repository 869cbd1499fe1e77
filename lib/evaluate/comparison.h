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

/// Room for the reference's predictions of the rows at hand. Comparisons of one run may share it: the reference is
/// always followed by its own variants.
struct ReferenceRows {
  std::vector<float> logits;              // [rows, vocab]
  std::vector<double> exponentials;       // [rows, vocab]
  std::vector<ReferencePrediction> rows;  // refer to both
};

/// The sinks of a run in which the reference and each variant are a group, the reference first, with equal sequences of
/// one prompt each. Logits exist for kRows tokens at a time: those of a batch may be larger than the model.
class Comparison {
 public:
  /// Enough for the head's product to be a dense one.
  static constexpr int64_t kRows = 64;

  /// Refers to prompts (Segment::prompt indexes them), rows and pool.
  Comparison(const std::vector<PromptTokens>& prompts, size_t n_variants, ReferenceRows& rows, ThreadPool& pool);
  ~Comparison();

  LogitsSink& of_reference();
  LogitsSink& of_variant(size_t i);

  /// By prompt and position, whatever the batches were.
  std::vector<ComparedToken> take(size_t variant);

  /// Bytes that exist at a time for each entry of the vocabulary: logits as they are computed and on the host, and the
  /// reference's as it keeps them.
  static constexpr int64_t kBytesPerEntry = kRows * static_cast<int64_t>(3 * sizeof(float) + sizeof(double));

 private:
  class ReferenceSink;
  class VariantSink;
  void keep(const Storage& logits, const Batch& batch);
  void compare(const Storage& logits, const Batch& batch, size_t variant);

  const std::vector<PromptTokens>& prompts_;
  ReferenceRows& reference_;
  ThreadPool& pool_;
  std::unique_ptr<ReferenceSink> reference_sink_;
  std::vector<std::unique_ptr<VariantSink>> variant_sinks_;
  std::vector<std::vector<ComparedToken>> tokens_;  // by variant
};

}  // namespace kvcal
