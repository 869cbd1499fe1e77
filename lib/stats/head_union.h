// Statistics of tensor-parallel ranks, each of its own heads, as those of the whole model.
#pragma once

#include <span>
#include <string>

#include "stats/run_record.h"

namespace kvcal {

/// The ranks of one recording, in any order; `names` has one entry for each, for messages. Heads stand in the order of
/// ranks, maxima by position and prompt combine; the record, prompt ids included, is that of rank 0: ranks record the
/// same steps by clocks of their own. Throws Error for ranks that are missing, twice, of another model, or that saw
/// other tokens.
Statistics united_heads(std::span<const Statistics> ranks, std::span<const std::string> names);

}  // namespace kvcal
