// Spans cut where the states of their sequences are stored or counted: the one place that decides when a state is
// rounded or shown.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "ops/ops.h"
#include "ops/recurrent_state.h"

namespace kvcal {

/// A state to store or to count now: of span `index`, after so many tokens of its sequence.
struct StoredNow {
  size_t index;
  int64_t passed;
};

/// Shows the states, all of one layer, to who counts them.
template <class State>
void show_states(std::span<State* const> states, std::span<const StoredNow> now) {
  std::vector<PassedState> passed;
  for (const StoredNow& n : now)
    passed.push_back({states[n.index]->counted.sequence, n.passed, states[n.index]->s.view});
  if (passed.empty()) return;
  const CountedState& of = states[now.front().index]->counted;
  of.by->count_states(of.layer, passed);
}

/// advance(spans) as often as states are stored or counted in between, then store(states to round). Where they are
/// neither it is one call for all.
template <class State, class Advance, class Store>
void in_stretches(std::span<const Span> spans, std::span<State* const> states, const Advance& advance,
                  const Store& store) {
  const StateFormat format = format_of(states);
  const bool counted = are_counted(states);
  if (!format.rounds() && !counted) return advance(spans);
  std::vector<Span> rest(spans.begin(), spans.end());
  for (bool more = true; more;) {
    more = false;
    std::vector<Span> stretch = rest;
    std::vector<StoredNow> stored, seen;
    for (size_t i = 0; i < rest.size(); ++i) {
      Span& left = rest[i];
      const int64_t first = left.first_position, end = first + left.n_tokens,
                    store_at = format.rounds() ? next_stored(format, first) : end + 1,
                    count_at = counted ? next_counted(first, states[i]->counted.sequence_tokens) : end + 1,
                    stop = std::min({end, store_at, count_at}), n = stop - first;
      stretch[i].n_tokens = n;
      if (n > 0 && stop == store_at) stored.push_back({i, stop});
      if (n > 0 && stop == count_at) seen.push_back({i, stop});
      left.row += n;
      left.first_position += n;
      left.n_tokens -= n;
      more = more || left.n_tokens > 0;
    }
    advance(std::span<const Span>(stretch));
    if (!stored.empty()) store(std::span<const StoredNow>(stored));
    show_states(states, std::span<const StoredNow>(seen));
  }
}

}  // namespace kvcal
