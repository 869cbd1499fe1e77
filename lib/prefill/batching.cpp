#include "prefill/batching.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace kvcal {

std::vector<Segment> segments_of(const std::vector<Sequence>& sequences) {
  std::vector<Segment> segments;
  for (const Sequence& s : sequences) {
    int64_t position = 0;
    for (const Piece& p : s.pieces) {
      segments.push_back({s.id, s.pass, p.prompt, p.offset, position, 0, p.n_tokens});
      for (const Repeat& r : s.repeats)
        segments.push_back({r.sequence, r.pass, p.prompt, p.offset, position, 0, p.n_tokens});
      position += p.n_tokens;
    }
  }
  return segments;
}

std::map<int64_t, std::vector<Repeat>> repeats_of(const std::vector<Sequence>& sequences) {
  std::map<int64_t, std::vector<Repeat>> repeats;
  for (const Sequence& s : sequences)
    if (!s.repeats.empty()) repeats[s.id] = s.repeats;
  return repeats;
}

namespace {

constexpr int64_t kMostAxes = 3;

// Positions of a piece's tokens for RoPE. Those of a prompt with images are its own; a piece begins behind the largest
// position before it, as the rows of an image count for fewer positions than tokens. So do tokens behind the prompt,
// which generation appends.
class PiecePositions {
 public:
  PiecePositions(const Piece& piece, const PromptTokens& prompt, int64_t begin)
      : rows_(prompt.encoder.get()), n_tokens_(rows_ ? static_cast<int64_t>(rows_->row_of.size()) : 0), begin_(begin) {
    if (rows_) behind_ = *std::max_element(rows_->positions.begin(), rows_->positions.end()) + 1;
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
    if (token >= n_tokens_) return behind_ + token - n_tokens_;
    return rows_->positions[static_cast<size_t>(axis * n_tokens_ + token)];
  }

  const EncoderRows* rows_;
  int64_t n_tokens_, begin_, behind_ = 0, origin_ = 0, end_ = 0;
};

/// The last token of the piece that one of its tokens sees.
int64_t last_seen(const Piece& piece, const PromptTokens& prompt, int64_t token) {
  const size_t i = static_cast<size_t>(token);
  if (!prompt.encoder || i >= prompt.encoder->last_seen.size()) return token;
  return std::min<int64_t>(prompt.encoder->last_seen[i], piece.offset + piece.n_tokens - 1);
}

/// The segment's tokens, of a piece that begins at this position.
void append_piece(Batch& batch, const Segment& segment, const Piece& piece, const PromptTokens& prompt,
                  const PiecePositions& positions) {
  const int64_t begin = segment.first_position - (segment.prompt_offset - piece.offset);
  for (int64_t token = segment.prompt_offset; token < segment.prompt_offset + segment.n_tokens; ++token) {
    const size_t i = static_cast<size_t>(token);
    if (prompt.encoder && i < prompt.encoder->row_of.size() && prompt.encoder->row_of[i] >= 0)
      batch.encoded.push_back({batch.n_tokens(), prompt.encoder.get(), prompt.encoder->row_of[i]});
    batch.ids.push_back(prompt.ids[i]);
    batch.last_keys.push_back(static_cast<int32_t>(begin + last_seen(piece, prompt, token) - piece.offset));
    for (int64_t axis = 0; axis < kMostAxes; ++axis) batch.positions.push_back(positions.at(token, axis));
  }
}

/// Positions [first, second) of the images of a sequence that are seen whole.
std::vector<std::pair<int64_t, int64_t>> whole_images(const Sequence& sequence,
                                                      const std::vector<PromptTokens>& prompts) {
  std::vector<std::pair<int64_t, int64_t>> images;
  int64_t begin = 0;  // of the piece
  for (const Piece& piece : sequence.pieces) {
    const PromptTokens& prompt = prompts[static_cast<size_t>(piece.prompt)];
    for (int64_t token = piece.offset; prompt.encoder && token < piece.offset + piece.n_tokens; ++token) {
      const int64_t last = last_seen(piece, prompt, token), to_position = begin - piece.offset;
      if (last > token) images.emplace_back(token + to_position, last + 1 + to_position);
      token = last;
    }
    begin += piece.n_tokens;
  }
  return images;
}

}  // namespace

void append_tokens(Batch& batch, const Sequence& sequence, const std::vector<PromptTokens>& prompts, int64_t first,
                   int64_t n) {
  const int64_t row = batch.n_tokens(), end = first + n;
  const bool looks_ahead = !whole_images(sequence, prompts).empty();
  batch.sequences.push_back(
      {sequence.id, {row, n, first, looks_ahead}, sequence.n_tokens, first == 0 && n == sequence.n_tokens});
  int64_t position = 0, rope_position = 0;  // where the current piece begins in the sequence
  for (const Piece& piece : sequence.pieces) {
    const PromptTokens& prompt = prompts[static_cast<size_t>(piece.prompt)];
    const PiecePositions positions(piece, prompt, rope_position);
    const int64_t from = std::max(first, position), to = std::min(end, position + piece.n_tokens);
    if (from < to) {
      const int64_t offset = piece.offset + (from - position);
      batch.segments.push_back({sequence.id, sequence.pass, piece.prompt, offset, from, batch.n_tokens(), to - from});
      append_piece(batch, batch.segments.back(), piece, prompt, positions);
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
  bool ahead = false;
  for (const SequenceSpan& s : batch.sequences) {
    batch.spans.push_back(s.span);
    for (int64_t t = 0; t < s.span.n_tokens; ++t)
      ahead = ahead || batch.last_keys[static_cast<size_t>(s.span.row + t)] > s.span.first_position + t;
  }
  if (!ahead) batch.last_keys.clear();
}

int64_t batch_rows(const std::vector<PromptTokens>& prompts, int64_t chunk_tokens) {
  int64_t longest = 1;
  for (const PromptTokens& p : prompts)
    for (size_t i = 0; p.encoder && i < p.encoder->last_seen.size(); ++i)
      longest = std::max(longest, p.encoder->last_seen[i] - static_cast<int64_t>(i) + 1);
  const int64_t least = (longest + kChunkAlignment - 1) / kChunkAlignment * kChunkAlignment;
  return std::max(chunk_tokens / kChunkAlignment * kChunkAlignment, least);
}

int64_t batch_end(const Sequence& sequence, const std::vector<PromptTokens>& prompts, int64_t first, int64_t room) {
  const int64_t limit = first + room;
  if (sequence.n_tokens <= limit) return sequence.n_tokens;
  int64_t end = limit / kChunkAlignment * kChunkAlignment;
  for (const auto& [from, to] : whole_images(sequence, prompts)) {
    if (from < end && end < to) end = from;
    if (to <= limit) end = std::max(end, to);
  }
  return std::max(end, first);
}

std::vector<Batch> make_batches(const std::vector<Sequence>& sequences, const std::vector<PromptTokens>& prompts,
                                int64_t chunk_tokens, int64_t n_position_axes, Cut cut, int64_t block) {
  const int64_t capacity = batch_rows(prompts, chunk_tokens);
  std::vector<Batch> batches;
  Batch current;
  const auto close = [&] {
    if (current.ids.empty()) return;
    finish_batch(current, n_position_axes);
    batches.push_back(std::exchange(current, {}));
  };
  for (const Sequence& s : sequences) {
    const bool is_cut = s.n_tokens > capacity - current.n_tokens() || (block > 0 && s.n_tokens > block);
    if (cut == Cut::LongOnly && is_cut) close();
    for (int64_t first = 0; first < s.n_tokens;) {
      const int64_t end = block_end(first, batch_end(s, prompts, first, capacity - current.n_tokens()), block);
      if (end > first) append_tokens(current, s, prompts, first, end - first);
      first = end;
      if (first < s.n_tokens) close();
    }
  }
  close();
  return batches;
}

namespace {

/// The rows that an encoder made of tokens behind those of the span, numbered from its first row.
std::vector<EncodedToken> encoded_behind(const Batch& batch, const Span& span, const Batch* next) {
  std::vector<EncodedToken> encoded;
  for (EncodedToken token : batch.encoded)
    if (token.row -= span.row + 1; token.row >= 0 && token.row < span.n_tokens - 1) encoded.push_back(token);
  if (next && !next->encoded.empty() && next->encoded.front().row == 0) {
    encoded.push_back(next->encoded.front());
    encoded.back().row = span.n_tokens - 1;
  }
  return encoded;
}

}  // namespace

std::vector<MtpRows> mtp_rows(const Batch& batch, const Batch* next) {
  assert(batch.last_keys.empty());  // no family with an MTP layer sees images whole
  const int64_t n_rows = batch.n_tokens();
  std::vector<MtpRows> all;
  for (const SequenceSpan& s : batch.sequences) {
    const Span& span = s.span;
    const bool ends = span.first_position + span.n_tokens == s.sequence_tokens;
    const int64_t n = span.n_tokens - (ends ? 1 : 0), read = s.sequence_tokens - 1;
    if (n == 0) continue;
    MtpRows rows = {span.row, rows_of(batch, span.row, n)};
    Batch& b = rows.batch;
    b.ids.erase(b.ids.begin());
    b.ids.push_back(ends ? batch.ids[static_cast<size_t>(span.row + n)] : next->ids.front());
    for (size_t begin = 0; begin < batch.positions.size(); begin += static_cast<size_t>(n_rows)) {
      const auto first = batch.positions.begin() + static_cast<int64_t>(begin) + span.row;
      b.positions.insert(b.positions.end(), first, first + n);
    }
    b.spans = {{0, n, span.first_position}};
    b.sequences = {{s.sequence, b.spans[0], read, n == read}};
    b.encoded = encoded_behind(batch, span, ends ? nullptr : next);
    all.push_back(std::move(rows));
  }
  return all;
}

Batch rows_of(const Batch& batch, int64_t row, int64_t n) {
  Batch rows;
  rows.ids.assign(batch.ids.begin() + row, batch.ids.begin() + row + n);
  for (const Segment& s : batch.segments) {
    const int64_t from = std::max(s.row, row), to = std::min(s.row + s.n_tokens, row + n);
    if (from >= to) continue;
    Segment& part = rows.segments.emplace_back(s);
    part.prompt_offset += from - s.row;
    part.first_position += from - s.row;
    part.row = from - row;
    part.n_tokens = to - from;
  }
  return rows;
}

}  // namespace kvcal
