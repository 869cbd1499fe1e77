#include "stats/row_ranks.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.h"

namespace kvcal {

void RowRanks::Group::add(const Segment& s) {
  first_token = shifts.empty() ? s.prompt_offset : std::min(first_token, s.prompt_offset);
  end_token = std::max(end_token, s.prompt_offset + s.n_tokens);
  shifts.push_back(s.first_position - s.prompt_offset);
}

RowRanks::RowRanks(const ObservationPlan& plan) : n_prompts_(static_cast<int64_t>(plan.prompt_ids.size())) {
  std::map<std::pair<int, int64_t>, Group> groups;
  for (const Segment& s : plan.segments) groups[{s.pass, s.prompt}].add(s);
  int64_t rank = 0;
  for (auto& [key, g] : groups) {
    std::tie(g.pass, g.prompt) = key;
    std::sort(g.shifts.begin(), g.shifts.end());
    g.shifts.erase(std::unique(g.shifts.begin(), g.shifts.end()), g.shifts.end());
    g.first_rank = rank;
    // Places also number a row's channels: Ops::accumulate() checks those that come by.
    if (g.end_token - g.first_token > ((int64_t{1} << kPlaceBits) - rank) / g.step())
      fail("the plan of what to observe has more rows than statistics on a device can tell apart");
    rank += (g.end_token - g.first_token) * g.step();
    groups_.push_back(std::move(g));
  }
}

TapRows RowRanks::describe(const Segment& s) const {
  const Group& g = *std::lower_bound(groups_.begin(), groups_.end(), s, [](const Group& a, const Segment& b) {
    return std::pair(a.pass, a.prompt) < std::pair(b.pass, b.prompt);
  });
  const auto shift = std::lower_bound(g.shifts.begin(), g.shifts.end(), s.first_position - s.prompt_offset);
  return {s.row,
          s.n_tokens,
          s.first_position,
          (s.pass - 1) * n_prompts_ + s.prompt,
          g.first_rank + (s.prompt_offset - g.first_token) * g.step() + (shift - g.shifts.begin()),
          g.step()};
}

Provenance RowRanks::row_of(int64_t rank) const {
  const auto behind = std::upper_bound(groups_.begin(), groups_.end(), rank,
                                       [](int64_t value, const Group& g) { return value < g.first_rank; });
  const Group& g = *(behind - 1);
  const int64_t token = g.first_token + (rank - g.first_rank) / g.step();
  const int64_t shift = g.shifts[static_cast<size_t>((rank - g.first_rank) % g.step())];
  return {g.pass, g.prompt, token, token + shift, 0, 0};
}

}  // namespace kvcal
