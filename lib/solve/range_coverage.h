// How likely is a new prompt to go beyond the range that was measured? From the largest magnitude of each prompt.
//
// beyond_absmax assumes only that the new prompt is of the same kind as those that were fed: as good as any of them
// could have been the new one. Of n + 1 such prompts the new one has the largest magnitude with chance 1 / (n + 1), or
// less where several share it, whatever the magnitudes' distribution.
//
// beyond_headroom also assumes that the prompts' maxima fall off beyond the largest as they do among the k largest,
// k = sqrt(n): as a power law (Hill), whose exponent is as uncertain as k spacings leave it. The logarithms of the
// spacings are then exponential, so that the chance to exceed headroom h times the largest is
//   (1 + ln h / S)^-k / (n + 1),  S = sum over the k largest of ln(x / x of rank k + 1).
// Lighter tails (normal, exponential) fall faster: for them it is too large. Too small it is where a rare kind of
// prompt has not come yet, up to a hundredfold; at most 1 / (n + 1) holds there too.
// tests/reference/make_coverage_goldens.py compares both with the truth of ten distributions.
#pragma once

#include <optional>
#include <span>

namespace kvcal {

struct RangeCoverage {
  double beyond_absmax = 1;               // chance that a new prompt exceeds the largest magnitude seen
  std::optional<double> beyond_headroom;  // that it exceeds headroom times that
  bool operator==(const RangeCoverage&) const = default;
};

/// maxima: largest magnitude of each prompt, at least 0. headroom: at least 1; none where the policy has none. Fewer
/// than two prompts show nothing.
std::optional<RangeCoverage> range_coverage(std::span<const float> maxima, std::optional<double> headroom);

}  // namespace kvcal
