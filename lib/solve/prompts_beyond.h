// How many prompts go beyond what the others reach: the share of them is what to expect of new prompts of the same
// kind.
#pragma once

#include <cstdint>
#include <optional>

#include "base/json.h"
#include "solve/options.h"
#include "stats/run_record.h"

namespace kvcal {

/// Each prompt left out in turn: how many exceed the range of the others at some site, and headroom times it.
struct PromptsBeyond {
  int64_t n_prompts = 0, absmax = 0;
  std::optional<int64_t> headroom;  // none for a policy without headroom
  Json further = Json::object();    // of files of later versions
  bool operator==(const PromptsBeyond&) const = default;
};

/// None for fewer than two prompts.
std::optional<PromptsBeyond> prompts_beyond(const Statistics& statistics, const SolveOptions& options);

}  // namespace kvcal
