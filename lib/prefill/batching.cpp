#include "prefill/batching.h"

#include <algorithm>
#include <utility>

namespace kvcal {

std::vector<Segment> segments_of(const std::vector<Sequence>& sequences) {
  std::vector<Segment> segments;
  for (const Sequence& s : sequences) {
    int64_t position = 0;
    for (const Piece& p : s.pieces) {
      segments.push_back({s.id, s.pass, p.prompt, p.offset, position, 0, p.n_tokens});
      position += p.n_tokens;
    }
  }
  return segments;
}

namespace {

constexpr int64_t kMostAxes = 3;

// Positions of a piece's tokens for RoPE. Those of a prompt with images are its own; a piece begins behind the largest
// position before it, as the rows of an image count for fewer positions than tokens.
class PiecePositions {
 public:
  PiecePositions(const Piece& piece, const PromptTokens& prompt, int64_t begin)
      : rows_(prompt.encoder.get()), n_tokens_(static_cast<int64_t>(prompt.ids.size())), begin_(begin) {
    if (!rows_) {
      origin_ = piece.offset;
      end_ = begin + piece.n_tokens;
      return;
    }
    int64_t least = given(piece.offset, 0), most = least;
    for (int64_t t = piece.offset; t < piece.offset + piece.n_tokens; ++t)
      for (int64_t axis = 0; axis < rows_->n_axes; ++axis) {
        least = std::min(least, given(t, axis));
        most = std::max(most, given(t, axis));
      }
    origin_ = least;
    end_ = begin + most - least + 1;
  }

  int64_t end() const { return end_; }  // where the next piece begins

  int32_t at(int64_t token, int64_t axis) const {
    const int64_t own = rows_ ? given(token, std::min(axis, rows_->n_axes - 1)) : token;
    return static_cast<int32_t>(begin_ + own - origin_);
  }

 private:
  int64_t given(int64_t token, int64_t axis) const {
    return rows_->positions[static_cast<size_t>(axis * n_tokens_ + token)];
  }

  const EncoderRows* rows_;
  int64_t n_tokens_, begin_, origin_ = 0, end_ = 0;
};

void append_piece(Batch& batch, const PromptTokens& prompt, const PiecePositions& positions, int64_t offset,
                  int64_t n) {
  for (int64_t token = offset; token < offset + n; ++token) {
    const size_t i = static_cast<size_t>(token);
    if (prompt.encoder && prompt.encoder->row_of[i] >= 0)
      batch.encoded.push_back({batch.n_tokens(), prompt.encoder.get(), prompt.encoder->row_of[i]});
    batch.ids.push_back(prompt.ids[i]);
    for (int64_t axis = 0; axis < kMostAxes; ++axis) batch.positions.push_back(positions.at(token, axis));
  }
}

}  // namespace

void append_tokens(Batch& batch, const Sequence& sequence, const std::vector<PromptTokens>& prompts, int64_t first,
                   int64_t n) {
  const int64_t row = batch.n_tokens(), end = first + n;
  batch.sequences.push_back({sequence.id, {row, n, first}, sequence.n_tokens, first == 0 && n == sequence.n_tokens});
  int64_t position = 0, rope_position = 0;  // where the current piece begins in the sequence
  for (const Piece& piece : sequence.pieces) {
    const PromptTokens& prompt = prompts[static_cast<size_t>(piece.prompt)];
    const PiecePositions positions(piece, prompt, rope_position);
    const int64_t from = std::max(first, position), to = std::min(end, position + piece.n_tokens);
    if (from < to) {
      const int64_t offset = piece.offset + (from - position);
      batch.segments.push_back({sequence.id, sequence.pass, piece.prompt, offset, from, batch.n_tokens(), to - from});
      append_piece(batch, prompt, positions, offset, to - from);
    }
    position += piece.n_tokens;
    rope_position = positions.end();
  }
}

void finish_batch(Batch& batch, int64_t n_position_axes) {
  const std::vector<int32_t> by_token = std::exchange(batch.positions, {});
  for (int64_t axis = 0; axis < n_position_axes; ++axis)
    for (size_t i = static_cast<size_t>(axis); i < by_token.size(); i += kMostAxes)
      batch.positions.push_back(by_token[i]);
  for (const SequenceSpan& s : batch.sequences) batch.spans.push_back(s.span);
}

std::vector<Batch> make_batches(const std::vector<Sequence>& sequences, const std::vector<PromptTokens>& prompts,
                                int64_t chunk_tokens, int64_t n_position_axes, Cut cut) {
  const int64_t capacity = std::max(chunk_tokens / kChunkAlignment, int64_t{1}) * kChunkAlignment;
  std::vector<Batch> batches;
  Batch current;
  const auto close = [&] {
    if (current.ids.empty()) return;
    finish_batch(current, n_position_axes);
    batches.push_back(std::exchange(current, {}));
  };
  for (const Sequence& s : sequences) {
    if (cut == Cut::LongOnly && s.n_tokens > capacity - current.n_tokens()) close();
    for (int64_t first = 0; first < s.n_tokens;) {
      const int64_t left = s.n_tokens - first, room = capacity - current.n_tokens();
      const int64_t n = left <= room ? left : room / kChunkAlignment * kChunkAlignment;
      if (n > 0) append_tokens(current, s, prompts, first, n);
      first += n;
      if (first < s.n_tokens) close();
    }
  }
  close();
  return batches;
}

}  // namespace kvcal
