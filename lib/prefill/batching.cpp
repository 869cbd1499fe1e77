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

void append_tokens(Batch& batch, const Sequence& sequence, const std::vector<PromptTokens>& prompts, int64_t first,
                   int64_t n) {
  const int64_t row = batch.n_tokens(), end = first + n;
  batch.sequences.push_back({sequence.id, {row, n, first}, sequence.n_tokens, first == 0 && n == sequence.n_tokens});
  int64_t position = 0;  // where the current piece begins in the sequence
  for (const Piece& piece : sequence.pieces) {
    const int64_t from = std::max(first, position), to = std::min(end, position + piece.n_tokens);
    if (from < to) {
      const int64_t offset = piece.offset + (from - position);
      batch.segments.push_back({sequence.id, sequence.pass, piece.prompt, offset, from, batch.n_tokens(), to - from});
      const auto begin = prompts[static_cast<size_t>(piece.prompt)].ids.begin() + offset;
      batch.ids.insert(batch.ids.end(), begin, begin + (to - from));
      for (int64_t p = from; p < to; ++p) batch.positions.push_back(static_cast<int32_t>(p));
    }
    position += piece.n_tokens;
  }
}

void finish_batch(Batch& batch, int64_t n_position_axes) {
  const std::vector<int32_t> row = batch.positions;
  for (int64_t axis = 1; axis < n_position_axes; ++axis)
    batch.positions.insert(batch.positions.end(), row.begin(), row.end());
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
