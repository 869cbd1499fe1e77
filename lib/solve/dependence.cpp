#include "solve/dependence.h"

#include <algorithm>
#include <vector>

namespace kvcal {
namespace {

/// Whether `all` is more than `limit` times `rest`.
bool lowers(float all, float rest, double limit) {
  return all > 0 && static_cast<double>(all) > limit * static_cast<double>(rest);
}

std::optional<double> ratio_of(float all, float rest) {
  return rest > 0 ? std::optional(static_cast<double>(all) / static_cast<double>(rest)) : std::nullopt;
}

/// Largest of the prompts that are not in `without` (ascending); none where all are.
std::optional<float> largest_without(std::span<const float> maxima, std::span<const uint64_t> without) {
  std::optional<float> largest;
  auto next = without.begin();
  for (size_t i = 0; i < maxima.size(); ++i) {
    if (next != without.end() && *next == i)
      ++next;
    else
      largest = std::max(largest.value_or(0), maxima[i]);
  }
  return largest;
}

}  // namespace

std::optional<PromptDependence> depends_on_prompt(std::span<const float> maxima, double limit) {
  if (maxima.size() < 2) return std::nullopt;
  const auto top = std::max_element(maxima.begin(), maxima.end());
  const auto prompt = static_cast<uint64_t>(top - maxima.begin());
  const float rest = *largest_without(maxima, std::span(&prompt, 1));
  if (!lowers(*top, rest, limit)) return std::nullopt;
  return PromptDependence{prompt, ratio_of(*top, rest)};
}

std::optional<TagDependence> depends_on_tag(std::span<const float> maxima, const PromptTags& tags, double limit) {
  std::optional<TagDependence> worst;
  float least = 0;
  const float all = maxima.empty() ? 0 : *std::max_element(maxima.begin(), maxima.end());
  for (const auto& [tag, prompts] : tags) {
    const std::optional<float> rest = largest_without(maxima, prompts);
    if (!rest || !lowers(all, *rest, limit) || (worst && *rest >= least)) continue;
    worst = TagDependence{tag, ratio_of(all, *rest)};
    least = *rest;
  }
  return worst;
}

}  // namespace kvcal
