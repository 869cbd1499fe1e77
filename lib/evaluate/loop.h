// An answer that ends in repeating itself.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace kvcal {

struct Loop {
  int64_t period = 0;       // tokens
  int64_t repetitions = 0;  // whole ones
  int64_t begin = 0;        // of the first, in the answer
  bool operator==(const Loop&) const = default;
};

/// Least of what counts as a loop: a dash repeated for a table's rule or a refrain is none.
constexpr int64_t kLeastRepetitions = 3, kLeastLoopTokens = 48;

/// The period whose repetition reaches furthest back from the end of the answer; of equal ones the shortest.
std::optional<Loop> find_loop(std::span<const int32_t> tokens);

}  // namespace kvcal
