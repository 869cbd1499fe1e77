// A batch: rows of tokens that go through a layer together, and which sequences they belong to.
#pragma once

#include <cstdint>
#include <vector>

#include "model/encoder_rows.h"
#include "ops/ops.h"

namespace kvcal {

/// Consecutive tokens of one prompt inside one sequence. A packed sequence consists of several segments; attention and
/// recurrent state run through them.
struct Segment {
  int64_t sequence = 0;
  int pass = 0;
  int64_t prompt = 0;          // index in the prompt list, sorted by id
  int64_t prompt_offset = 0;   // of the segment's first token within the prompt
  int64_t first_position = 0;  // of that token within the sequence
  int64_t row = 0;             // of that token within the batch
  int64_t n_tokens = 0;
};

/// A sequence of a later pass that would be one of pass 1 once more: it is not run, that one's rows count for it.
struct Repeat {
  int64_t sequence = 0;
  int pass = 0;
};

/// Neighboring segments of one sequence, joined: what attention and recurrence work on.
struct SequenceSpan {
  int64_t sequence = 0;
  Span span;
  int64_t sequence_tokens = 0;  // length of the whole sequence
  bool whole = false;           // the span is the whole sequence: nothing has to be kept for later
};

struct Batch {
  std::vector<int32_t> ids;        // [tokens]
  std::vector<int32_t> positions;  // [n_axes][tokens]
  std::vector<Segment> segments;   // in row order
  std::vector<SequenceSpan> sequences;
  std::vector<Span> spans;            // sequences[i].span, as ops take them
  std::vector<EncodedToken> encoded;  // rows that an encoder made, not the embedding
  // [tokens]: position in its sequence of the last key that each row sees where images are seen whole. Empty: its own.
  std::vector<int32_t> last_keys;

  int64_t n_tokens() const { return static_cast<int64_t>(ids.size()); }
};

}  // namespace kvcal
