#include "evaluate/interval.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/portable_math.h"

namespace kvcal {
namespace {

constexpr size_t kDraws = 10000;
constexpr double kNormal = 1.959963984540054;  // 97.5 % of the standard normal distribution lie below

/// How often the interval of one look may miss.
double missed(int64_t n_looks) { return n_looks > 1 ? 0.05 / static_cast<double>(3 * n_looks) : 0.05; }

/// Where it ends on the standard normal distribution.
double normal_end(int64_t n_looks) { return n_looks > 1 ? -normal_quantile(missed(n_looks) / 2) : kNormal; }

size_t index_below(size_t n, uint64_t bits) { return static_cast<size_t>(((bits >> 32) * n) >> 32); }

/// Student's t below which as much lies as below `z` of the normal distribution, by its expansion in 1 / degrees of
/// freedom: for 97.5 % within 0.1 % from 5 on.
double student(double freedom, double z) {
  const double z2 = z * z, v = freedom;
  return z + z * ((z2 + 1) / (4 * v) + ((5 * z2 + 16) * z2 + 3) / (96 * v * v) +
                  (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * v * v * v) +
                  ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / (92160 * v * v * v * v));
}

/// The share of draws below the interval. A bootstrap's variance lacks the factor n / (n - 1), its percentiles t's
/// tail.
double tail_of(size_t n_groups, int64_t n_looks) {
  const auto n = static_cast<double>(n_groups);
  return 0.5 * portable_erfc(std::sqrt(n / (n - 1)) * student(n - 1, normal_end(n_looks)) / std::numbers::sqrt2);
}

double value_of(const GroupSums& sums) {
  GroupSum all = sums.fixed;
  for (const GroupSum& g : sums.groups) {
    all.sum += g.sum;
    all.n += g.n;
  }
  return all.n > 0 ? all.sum / all.n : 0;
}

Interval bootstrap(const GroupSums& sums, int64_t n_looks) {
  const size_t n = sums.groups.size();
  std::vector<double> draws;
  uint64_t state = 0;
  for (size_t r = 0; r < kDraws; ++r) {
    GroupSum drawn = sums.fixed;
    for (size_t i = 0; i < n; ++i) {
      const GroupSum& g = sums.groups[index_below(n, next_random(state))];
      drawn.sum += g.sum;
      drawn.n += g.n;
    }
    draws.push_back(drawn.n > 0 ? drawn.sum / drawn.n : std::numeric_limits<double>::infinity());
  }
  std::ranges::sort(draws);
  const auto below = static_cast<size_t>(tail_of(n, n_looks) * static_cast<double>(kDraws));
  return {draws[below], draws[kDraws - 1 - below]};
}

Estimate estimate_of(const GroupSums& sums, int64_t n_looks) {
  Estimate estimate{value_of(sums), {}};
  if (sums.groups.size() >= static_cast<size_t>(fewest_groups(n_looks))) estimate.interval = bootstrap(sums, n_looks);
  return estimate;
}

}  // namespace

int64_t fewest_groups(int64_t n_looks) {
  int n = 1;
  while (std::ldexp(2, -n) > missed(n_looks)) ++n;
  return n;
}

Interval wilson(double share, double n, int64_t n_looks) {
  const double z = normal_end(n_looks), z2 = z * z, middle = (share + z2 / (2 * n)) / (1 + z2 / n);
  const double half = z * std::sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n);
  return {std::max(middle - half, 0.0), std::min(middle + half, 1.0)};
}

Estimate ratio_of(const GroupSums& given, int64_t n_looks) {
  GroupSums sums = given;
  std::erase_if(sums.groups, [](const GroupSum& g) { return g.n == 0; });
  return estimate_of(sums, n_looks);
}

Estimate quotient_of(const GroupSums& sums, const GroupSums& by, int64_t n_looks) {
  GroupSums quotient{{}, {sums.fixed.sum, by.fixed.sum}};
  for (size_t i = 0; i < sums.groups.size(); ++i)
    if (sums.groups[i].n > 0) quotient.groups.push_back({sums.groups[i].sum, by.groups[i].sum});
  Estimate estimate = estimate_of(quotient, n_looks);
  if (estimate.interval && std::isinf(estimate.interval->high)) estimate.interval.reset();
  return estimate;
}

Estimate share_of(const GroupSums& sums, double n_trials, int64_t n_looks) {
  Estimate estimate = ratio_of(sums, n_looks);
  if (!estimate.interval) return estimate;
  const Interval least = wilson(estimate.value, n_trials, n_looks);
  estimate.interval = {std::min(estimate.interval->low, least.low), std::max(estimate.interval->high, least.high)};
  return estimate;
}

Changes mcnemar(int64_t n_lost, int64_t n_gained) {
  const int64_t n = n_lost + n_gained;
  double log_ways = 0, sum = 0;  // of choosing so many of n
  for (int64_t k = 0; k <= std::min(n_lost, n_gained); ++k) {
    if (k > 0) log_ways += portable_log(static_cast<double>(n - k + 1)) - portable_log(static_cast<double>(k));
    sum += portable_exp(log_ways - static_cast<double>(n) * std::numbers::ln2);
  }
  return {n_lost, n_gained, std::min(1.0, 2 * sum)};
}

}  // namespace kvcal
