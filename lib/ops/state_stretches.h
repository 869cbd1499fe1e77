// Spans cut where the states of their sequences are stored: the one place that decides when a state is rounded.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "ops/ops.h"
#include "ops/recurrent_state.h"

namespace kvcal {

/// A state to store now: of span `index`, after so many tokens of its sequence.
struct StoredNow {
  size_t index;
  int64_t passed;
};

/// advance(spans) as often as states are stored in between, then store(states to round). Where they are not rounded it
/// is one call for all.
template <class State, class Advance, class Store>
void in_stretches(std::span<const Span> spans, std::span<State* const> states, const Advance& advance,
                  const Store& store) {
  const StateFormat format = format_of(states);
  if (!format.rounds()) return advance(spans);
  std::vector<Span> rest(spans.begin(), spans.end());
  for (bool more = true; more;) {
    more = false;
    std::vector<Span> stretch = rest;
    std::vector<StoredNow> stored;
    for (size_t i = 0; i < rest.size(); ++i) {
      Span& left = rest[i];
      const int64_t next = next_stored(format, left.first_position),
                    n = std::min(left.n_tokens, next - left.first_position);
      stretch[i].n_tokens = n;
      if (n > 0 && left.first_position + n == next) stored.push_back({i, next});
      left.row += n;
      left.first_position += n;
      left.n_tokens -= n;
      more = more || left.n_tokens > 0;
    }
    advance(std::span<const Span>(stretch));
    if (!stored.empty()) store(std::span<const StoredNow>(stored));
  }
}

}  // namespace kvcal
