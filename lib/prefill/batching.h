// Cuts sequences into batches of rows.
#pragma once

#include <vector>

#include "model/batch.h"
#include "prefill/sequence_plan.h"

namespace kvcal {

/// Chunk boundaries fall on multiples of this many positions; every chunk length of a recurrent layer divides it, so a
/// cut sequence gives the same bytes as a whole one.
constexpr int64_t kChunkAlignment = 256;

/// Which sequences may be cut to fill a batch. LongOnly: those alone that no batch could hold, so that hardly any needs
/// states, and at most one at a time.
enum class Cut : uint8_t { Anywhere, LongOnly };

/// The sequences in order, at most chunk_tokens rows to a batch (rounded down to kChunkAlignment). Row r of batch b is
/// row (rows of all earlier batches) + r of the concatenated sequences.
std::vector<Batch> make_batches(const std::vector<Sequence>& sequences, const std::vector<PromptTokens>& prompts,
                                int64_t chunk_tokens, int64_t n_position_axes, Cut cut = Cut::Anywhere);

/// Every piece of every sequence as a segment (row 0): what a complete run feeds.
std::vector<Segment> segments_of(const std::vector<Sequence>& sequences);

/// Appends tokens [first, first + n) of a sequence to a batch whose positions are still in the order of tokens.
void append_tokens(Batch& batch, const Sequence& sequence, const std::vector<PromptTokens>& prompts, int64_t first,
                   int64_t n);

/// Fills spans and puts the positions in the order of axes: call once, after the last append_tokens.
void finish_batch(Batch& batch, int64_t n_position_axes);

}  // namespace kvcal
