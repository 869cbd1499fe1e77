#include "evaluate/loop.h"

#include <algorithm>

namespace kvcal {

std::optional<Loop> find_loop(std::span<const int32_t> tokens) {
  const auto n = static_cast<int64_t>(tokens.size());
  std::optional<Loop> best;
  for (int64_t period = 1; period * kLeastRepetitions <= n; ++period) {
    int64_t begin = n - period;  // tokens[i] == tokens[i + period] for all i from here on
    while (begin > 0 && tokens[static_cast<size_t>(begin - 1)] == tokens[static_cast<size_t>(begin - 1 + period)])
      --begin;
    const Loop loop{period, (n - begin) / period, begin};
    if (loop.repetitions >= kLeastRepetitions && n - begin >= kLeastLoopTokens && (!best || begin < best->begin))
      best = loop;
  }
  return best;
}

}  // namespace kvcal
