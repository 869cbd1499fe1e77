// Statistics of several runs as if they had been one.
#pragma once

#include <span>

#include "stats/run_record.h"

namespace kvcal {

/// Adds two disjoint runs over the same caches: counts add, maxima and their places combine by the rules of
/// statistics.h. Exact, commutative and associative. Prompt ids are united; a prompt that both runs fed keeps one
/// entry. Blocks of the run record that differ become null, a differing hash becomes empty, and the result is no shard:
/// only the caller knows what the union should be called (run_union.h), and whether the runs are disjoint and of one
/// plan. Throws Error when the caches differ.
Statistics merge(const Statistics& a, const Statistics& b);

/// The same for one or more runs. Throws Error for none.
Statistics merge(std::span<const Statistics> runs);

}  // namespace kvcal
