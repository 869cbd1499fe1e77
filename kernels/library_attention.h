// Which of a call's spans go to the library of attention_library.h, in which calls.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/attention_library.h"
#include "kernels/kernels.h"
#include "tensor/dtype.h"

namespace kvcal::cuda {

/// Spans [first, first + plan.n_sequences) of a list, for one call of the library.
struct AttentionGroup {
  AttentionPlan plan;
  size_t first = 0;
};

/// Whether to offer such attention to the library at all.
bool for_library(DType dtype, const AttentionShape& shape);

/// Calls for the spans that are worth one, and look ahead nowhere: neighbouring spans that begin at position 0, a power
/// of two of them each, or a single one that goes on. Bounds are powers of two as well: a few plans serve batches of
/// any composition, and no call has an empty sequence to fill it up (cuDNN before 9.25 gives NaN for those).
std::vector<AttentionGroup> attention_groups(std::span<const AttentionSpan> spans, const AttentionShape& shape);

/// Counts and offsets of all groups as one array to copy to the device, in which group g's begin at begin[g].
struct AttentionTables {
  std::vector<int64_t> values;
  std::vector<size_t> begin;
};
AttentionTables attention_tables(std::span<const AttentionGroup> groups, std::span<const AttentionSpan> spans,
                                 const AttentionShape& shape);

/// The tables of one group, where they lie on the device; no pointers to rows yet.
AttentionCall call_of(const AttentionPlan& plan, const int64_t* tables);

/// Whether two results [n] of the same attention in bf16 differ by more than roundings: empty, or how.
std::string difference(const bf16* theirs, const bf16* ours, size_t n);

}  // namespace kvcal::cuda
