// Which tokens of a set of prompts are independent evidence. Prompts that begin alike repeat tokens, at which every
// variant predicts the same: these count once. Prompts that are mostly the same tell no more than one of them.
#pragma once

#include <cstdint>
#include <vector>

#include "prefill/sequence_plan.h"

namespace kvcal {

struct PromptGroups {
  /// Of a prompt: tokens before `repeated` are those of another one, which counts them; those from there to before
  /// `shared` belong to several groups; those behind belong to the prompt's group. group -1: none are left.
  struct Part {
    int64_t repeated = 0, shared = 0;
    int64_t group = -1;
  };

  std::vector<Part> prompts;  // in their order
  int64_t n_groups = 0;       // numbered by token ids, whatever the order of the prompts
  int64_t n_tokens = 0;       // of all prompts
  int64_t n_counted = 0;      // of these, each repeated one once
  int64_t common = 0;         // tokens that all prompts begin with; 0 for a single prompt
  int64_t n_needed = 0;       // groups, for an interval; conclude() says so

  /// Whether prompts were put into one group.
  bool any_joined = false;
};

/// Prompts with the same beginning are of one group where that makes more of them than what follows. What all prompts
/// begin with joins none. Behind its first image a prompt repeats no other one: ids do not say what the image shows.
PromptGroups group_prompts(const std::vector<PromptTokens>& prompts);

}  // namespace kvcal
