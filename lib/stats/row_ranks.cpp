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

void RowRanks::add_cells(Group& g) {
  g.first_cell = static_cast<int64_t>(cells_.size());
  if (plan_.kinds.empty()) {
    g.kinds = {0};
  } else {
    g.kinds = plan_.kinds[static_cast<size_t>(g.prompt)];
    std::sort(g.kinds.begin(), g.kinds.end());
    g.kinds.erase(std::unique(g.kinds.begin(), g.kinds.end()), g.kinds.end());
    g.kinds.shrink_to_fit();
  }
  for (const uint8_t kind : g.kinds) cells_.push_back({g.pass, g.prompt, kind});
}

RowRanks::RowRanks(const ObservationPlan& plan) : plan_(plan) {
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
    add_cells(g);
    groups_.push_back(std::move(g));
  }
}

std::vector<TapRows> RowRanks::describe(const Segment& s) const {
  const Group& g = *std::lower_bound(groups_.begin(), groups_.end(), s, [](const Group& a, const Segment& b) {
    return std::pair(a.pass, a.prompt) < std::pair(b.pass, b.prompt);
  });
  const auto shift = std::lower_bound(g.shifts.begin(), g.shifts.end(), s.first_position - s.prompt_offset);
  const int64_t first_rank = g.first_rank + (s.prompt_offset - g.first_token) * g.step() + (shift - g.shifts.begin());
  const uint8_t* kinds =
      plan_.kinds.empty() ? nullptr : plan_.kinds[static_cast<size_t>(s.prompt)].data() + s.prompt_offset;
  std::vector<TapRows> pieces;
  for (int64_t from = 0, to = 0; from < s.n_tokens; from = to) {
    for (to = kinds ? from + 1 : s.n_tokens; to < s.n_tokens && kinds[to] == kinds[from]; ++to) {
    }
    const auto kind = std::lower_bound(g.kinds.begin(), g.kinds.end(), kinds ? kinds[from] : uint8_t{0});
    pieces.push_back({s.row + from, to - from, s.first_position + from, g.first_cell + (kind - g.kinds.begin()),
                      first_rank + from * g.step(), g.step()});
  }
  return pieces;
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
