// The tensors of a layer's states in a statistics file: a part of a site's, and n_states in the place of n_tokens.
#pragma once

#include <string>

#include "stats/state_statistics.h"
#include "stats/statistics_layout.h"

namespace kvcal {

/// "l3.state.": what the names of a layer's begin with.
std::string state_prefix(const StateLayout& layout);

/// Calls visit(name, dtype, shape, array) for every tensor of a layer's states, in order of name.
template <class Arrays, class Visit>
void for_each_state_tensor(Arrays& a, const StateLayout& layout, int64_t n_passes, int64_t n_prompts, Visit visit) {
  visit("absmax", DType::BF16, Shape{layout.heads}, a.absmax);
  visit("head_offsets", DType::U64, Shape{layout.heads + 1}, a.head_offsets);
  visit("hist_count", DType::U64, Shape{kAnyExtent}, a.hist_count);
  visit("hist_index", DType::U16, Shape{kAnyExtent}, a.hist_index);
  visit("inf", DType::U64, Shape{layout.heads}, a.inf);
  visit("n_states", DType::U64, Shape{1}, a.n_tokens);
  visit("nan", DType::U64, Shape{layout.heads}, a.nan);
  visit("position_absmax", DType::BF16, Shape{kAnyExtent}, a.position_absmax);
  visit("prompt_absmax", DType::BF16, Shape{n_passes, n_prompts}, a.prompt_absmax);
  visit("where", DType::I64, Shape{layout.heads, 6}, a.where);
  visit("zero", DType::U64, Shape{layout.heads}, a.zero);
}

/// Throws Error, as unflatten() of a site does.
StateStatistics unflatten_state(SiteArrays arrays, const StateLayout& layout);

}  // namespace kvcal
