// Sums of a batch's sampled rows (attention_tables.h).
#pragma once

#include <vector>

#include "stats/attention_tables.h"

namespace kvcal {

/// In no particular order, and perhaps two of a key; what they add up to is the same for any number of threads. Of the
/// request only format and ladders are read.
std::vector<SampledSum> sums_of(const SampledBatch& batch, const SampleRequest& request, ThreadPool& pool);

}  // namespace kvcal
