// Greedy generation, token by token, with every layer's weights resident: the user's check that the model was
// understood. The same blocks as calibration, one more token at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "prefill/runner.h"

namespace kvcal {

struct GenerateOptions {
  int64_t max_new_tokens = 64;
  int64_t n_top = 5;                 // logits listed for the first generated position
  std::vector<int32_t> stop_tokens;  // generation ends after one of these
  int64_t block = 0;                 // MemoryPlan::block
  StateFormat state{};               // how recurrent states are stored; what is generated is decoded
};

struct Generated {
  std::vector<int32_t> output_ids;             // without the prompt; a stop token is included
  std::vector<std::pair<int32_t, float>> top;  // (token, logit), largest first; ties: lower token first
  double decode_seconds = 0;                   // of all tokens but the first, which the prompt's last position gives
};

class Generator {
 public:
  /// Loads embedding, all blocks and the head.
  Generator(const Model& model, Ops& op, ModelWeights& weights, int64_t chunk_tokens);

  /// Continues a prompt greedily. `tap` sees every token as in calibration.
  Generated generate(const PromptTokens& prompt, const GenerateOptions& options, KvTap& tap);

  /// Last-position logits [vocab] of a prompt fed in steps of the given sizes (their sum is the length): one-shot,
  /// chunked and token-by-token runs are this one call.
  std::vector<float> last_logits(const PromptTokens& prompt, const std::vector<int64_t>& steps, KvTap& tap);

 private:
  struct Run;  // the states of one sequence in every layer
  std::vector<float> feed(Run& run, int64_t first, int64_t n, KvTap& tap);

  const Model& model_;
  Ops& op_;
  int64_t chunk_tokens_;
  std::unique_ptr<Embedding> embedding_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::unique_ptr<Head> head_;
};

}  // namespace kvcal
