// How many prompts an evaluation runs before it looks whether a limit is decided, and after which further ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kvcal {

/// Each look has about twice the prompts of the one before. With fewer the intervals of skewed figures end too early.
inline constexpr int64_t kFirstLook = 48;

/// Prompts at each look, ascending; the last has all.
std::vector<int64_t> looks_at(int64_t n_prompts);

/// Indexes of so many prompts in the order in which they are run, which their number alone decides: neighbors by id may
/// be alike.
std::vector<size_t> drawn_order(size_t n_prompts);

}  // namespace kvcal
