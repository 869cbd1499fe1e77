#include "solve/range_coverage.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "base/portable_math.h"

namespace kvcal {
namespace {

// Magnitudes are bf16 numbers, whose neighbours are this far apart: equal ones may differ by it.
constexpr double kResolution = 0x1p-8;

/// Smallest k with k * k >= n, at most n - 1.
size_t n_largest(size_t n) {
  size_t k = 1;
  while (k * k < n) ++k;
  return std::min(k, n - 1);
}

/// Of the chance to exceed the largest, the share that exceeds headroom times the largest.
double share_beyond(std::vector<float> maxima, double headroom) {
  std::sort(maxima.begin(), maxima.end(), std::greater<>());
  const size_t k = n_largest(maxima.size());
  const auto below = static_cast<double>(maxima[k]);
  if (below == 0) return 1;  // no tail to go by
  double spread = static_cast<double>(k) * kResolution;
  for (size_t i = 0; i < k; ++i) spread += portable_log(static_cast<double>(maxima[i]) / below);
  const double base = 1 / (1 + portable_log(headroom) / spread);
  double share = 1;
  for (size_t i = 0; i < k; ++i) share *= base;
  return share;
}

}  // namespace

std::optional<RangeCoverage> range_coverage(std::span<const float> maxima, std::optional<double> headroom) {
  const size_t n = maxima.size();
  if (n < 2) return std::nullopt;
  RangeCoverage coverage;
  coverage.beyond_absmax = 1 / static_cast<double>(n + 1);
  if (headroom)
    coverage.beyond_headroom = coverage.beyond_absmax * share_beyond({maxima.begin(), maxima.end()}, *headroom);
  return coverage;
}

}  // namespace kvcal
