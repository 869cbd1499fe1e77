// The scales of a model: every cache solved. A stage of its own, between the statistics and any file.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "solve/prompts_beyond.h"
#include "solve/solve.h"

namespace kvcal {

struct Solution {
  explicit Solution(SolveOptions chosen) : options(std::move(chosen)) {}

  SolveOptions options;
  int64_t max_model_len = 0;            // tokens: that of the options, else the model's own; 0: unknown
  std::vector<SolvedCache> caches;      // those of the statistics, in their order
  std::optional<PromptsBeyond> beyond;  // none for fewer than two prompts
};

/// Pure: equal statistics and options give equal solutions. Throws Error naming layer, site and head where no honest
/// scale exists, for a shard, and where the run record does not say what a solution needs.
Solution solve(const Statistics& statistics, const SolveOptions& options);

}  // namespace kvcal
