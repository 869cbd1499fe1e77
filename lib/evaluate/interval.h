// How far a figure of some prompts can be from that of all prompts like them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace kvcal {

/// Of the tokens of a group of prompts: what is summed, and over how many.
struct GroupSum {
  double sum = 0, n = 0;
};

/// What a ratio is made of: groups that could have been others, and tokens that every draw has.
struct GroupSums {
  std::vector<GroupSum> groups;
  GroupSum fixed;
};

struct Interval {
  double low = 0, high = 0;
};

struct Estimate {
  double value = 0;
  std::optional<Interval> interval;  // none where there are too few groups
};

/// Fewer prompts can all lie on one side of the true median more often than an interval may miss: 2 / 2^5 is above 5 %,
/// and with several looks each may miss less often.
int64_t fewest_groups(int64_t n_looks = 1);

/// The sum of sums over the sum of counts, with an interval of 95 %: bootstrap over groups, at the percentiles at which
/// one of means is as wide as Student's. The draws depend on the number of groups alone, so that figures of the same
/// groups are paired. Groups without tokens are left out. With several looks at a growing sample the interval holds at
/// all of them together: each may miss by a third of its equal part of the 5 % (Bonferroni), as intervals of skewed
/// figures end too early.
Estimate ratio_of(const GroupSums& sums, int64_t n_looks = 1);

/// Sums over sums of the same tokens. Groups whose part of `by` is 0 are drawn like all others. A draw in which all of
/// it is 0 is above every limit; no interval where these are too many for an upper end.
Estimate quotient_of(const GroupSums& sums, const GroupSums& by, int64_t n_looks = 1);

/// Where a share of n independent trials lies, at 95 %: Wilson's; with several looks as wide as ratio_of() is then.
Interval wilson(double share, double n, int64_t n_looks = 1);

/// The same as ratio_of() for a share, 0 to 1. Draws know nothing of what never happened among them, so the interval is
/// at least Wilson's of so many independent trials.
Estimate share_of(const GroupSums& sums, double n_trials, int64_t n_looks = 1);

/// Of pairs of trials, those that came out better in only one, or the other, of two ways; McNemar's exact test.
struct Changes {
  int64_t n_lost = 0, n_gained = 0;
  double p = 1;  // of so uneven a division, or a more uneven one, where neither way is better
};
Changes mcnemar(int64_t n_lost, int64_t n_gained);

}  // namespace kvcal
