// From prompts to the list of sequences that a run feeds: every pass, warm-up and sanity sequence, in one fixed order
// that depends on the prompts alone, not on the order of files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/batch.h"
#include "model/encoder_rows.h"

namespace kvcal {

/// A tokenized prompt. `weight` repeats it as a whole.
struct PromptTokens {
  std::string id;
  std::vector<int32_t> ids;
  int64_t weight = 1;
  std::shared_ptr<const EncoderRows> encoder{};  // of a prompt with images
  std::string encoder_sha256{};                  // of their file
  std::vector<uint8_t> kinds{};                  // of each token (base/token_kind.h); empty: not known
  std::vector<std::string> tags{};               // of the record, without repeats
};

/// Tokens [offset, offset + n_tokens) of a prompt inside a sequence.
struct Piece {
  int64_t prompt = 0;  // index in SequencePlan::prompts
  int64_t offset = 0;
  int64_t n_tokens = 0;
};

/// One independent token stream: state starts at zero and attention reaches back to its first token, whatever its
/// pieces.
struct Sequence {
  int64_t id = 0;  // unique within the plan
  int pass = 0;    // 1, 2, ... measured; 0 warm-up or sanity
  std::vector<Piece> pieces;
  int64_t n_tokens = 0;
  std::vector<Repeat> repeats = {};  // of pass 1: of a prompt that fits with no other
};

/// Tokens that are run.
int64_t tokens_of(const std::vector<Sequence>& sequences);

struct SequenceOptions {
  int passes = 2;                   // 1: each prompt alone; 2: packed end to end; 3..: packed in another seeded order
  int warmup_passes = 1;            // run and discarded
  int64_t max_length = 2048;        // longest packed sequence; single prompts were cut to it before
  bool sanity = true;               // up to 4 prompts, up to 64 tokens each, run to the logits
  int64_t shard = 0, n_shards = 1;  // every n-th measured sequence, from the one with id `shard`
};

struct SequencePlan {
  std::vector<PromptTokens> prompts;  // sorted by id
  std::vector<Sequence> warmup, measured, sanity;
  // Of all shards together:
  std::string sha256;  // of the measured list, with all tokens
  int64_t n_sequences = 0, n_tokens_of_all = 0, longest_of_all = 0;
  int64_t n_encoder_tokens_of_all = 0;  // among them: what an encoder made of images
  // Of this shard:
  int64_t n_tokens() const;  // measured, all passes, with repeats
  int64_t longest() const;   // tokens of the longest measured sequence
};

/// Throws when there is no prompt with tokens, ids repeat, a prompt is longer than max_length, or there are more shards
/// than sequences. Every shard has all prompts and the sanity sequences; measured and warm-up ones are divided.
SequencePlan plan_sequences(std::vector<PromptTokens> prompts, const SequenceOptions& options);

}  // namespace kvcal
