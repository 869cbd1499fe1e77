// Divides sequences into batches of rows.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "model/batch.h"
#include "prefill/sequence_plan.h"

namespace kvcal {

/// Which sequences may be cut to fill a batch. LongOnly: those alone that no batch could hold, so that hardly any needs
/// states, and at most one at a time.
enum class Cut : uint8_t { Anywhere, LongOnly };

/// Rows of a batch: chunk_tokens rounded down to kChunkAlignment, and no fewer than the longest image whose tokens see
/// all of it.
int64_t batch_rows(const std::vector<PromptTokens>& prompts, int64_t chunk_tokens);

/// Where a batch that begins at position `first` of a sequence and has room for so many rows ends: on a multiple of
/// kChunkAlignment, the edge of an image whose tokens see all of it, or the sequence's end; never inside such an image.
int64_t batch_end(const Sequence& sequence, const std::vector<PromptTokens>& prompts, int64_t first, int64_t room);

/// The sequences in order, at most batch_rows() to a batch. Row r of batch b is row (rows of all earlier batches) + r
/// of the concatenated sequences. block: above 0, no batch goes beyond a multiple of so many positions of a sequence.
std::vector<Batch> make_batches(const std::vector<Sequence>& sequences, const std::vector<PromptTokens>& prompts,
                                int64_t chunk_tokens, int64_t n_position_axes, Cut cut = Cut::Anywhere,
                                int64_t block = 0);

/// The next multiple of a block's positions, or `end` where that comes first. block 0: none comes.
inline int64_t block_end(int64_t first, int64_t end, int64_t block) {
  return block > 0 ? std::min(end, (first / block + 1) * block) : end;
}

/// Ids and segments of rows [row, row + n): what is left to know of a batch behind the last layer.
Batch rows_of(const Batch& batch, int64_t row, int64_t n);

/// One sequence's rows of a batch as an MTP layer reads them: with the id of the token behind each. The last token of a
/// sequence has none behind it and is left out, as if the sequence ended before it.
struct MtpRows {
  int64_t row;  // of the batch, where they begin
  Batch batch;
};

/// `next`: the batch behind, where it goes on with the last sequence of this one; may be null when there is none.
std::vector<MtpRows> mtp_rows(const Batch& batch, const Batch* next);

/// Every piece of every sequence and of its repeats as a segment (row 0): what a complete run counts.
std::vector<Segment> segments_of(const std::vector<Sequence>& sequences);

/// By id of the sequence that is run.
std::map<int64_t, std::vector<Repeat>> repeats_of(const std::vector<Sequence>& sequences);

/// Appends tokens [first, first + n) of a sequence to a batch whose positions are still in the order of tokens.
void append_tokens(Batch& batch, const Sequence& sequence, const std::vector<PromptTokens>& prompts, int64_t first,
                   int64_t n);

/// Fills spans, puts the positions in the order of axes, and drops last keys where all are the rows' own: call once,
/// after the last append_tokens.
void finish_batch(Batch& batch, int64_t n_position_axes);

}  // namespace kvcal
