#include "stats/group_ranges.h"

#include <algorithm>
#include <span>

#include "base/token_kind.h"
#include "stats/queries.h"

namespace kvcal {
namespace {

std::optional<double> growth_from(float before, float all) {
  return before > 0 ? std::optional(static_cast<double>(std::max(before, all)) / static_cast<double>(before) - 1)
                    : std::nullopt;
}

float largest(std::span<const float> values) { return values.empty() ? 0 : *std::ranges::max_element(values); }

/// Of the groups that `group_of` makes of kinds.
std::vector<GroupRange> ranges_by_kind(const SiteStatistics& site, std::span<const std::string_view> names,
                                       size_t (*group_of)(size_t kind)) {
  std::vector<GroupRange> all;
  if (site.kind_tokens.empty()) return all;
  const size_t n_passes = site.kind_absmax.size() / kTokenKinds;
  for (size_t group = 0; group < names.size(); ++group) {
    GroupRange range;
    range.name = names[group];
    std::vector<float> by_pass(n_passes);
    for (size_t kind = 0; kind < kTokenKinds; ++kind) {
      if (group_of(kind) != group) continue;
      range.n += site.kind_tokens[kind];
      for (size_t pass = 0; pass < n_passes; ++pass)
        by_pass[pass] = std::max(by_pass[pass], magnitude_of(site.kind_absmax[pass * kTokenKinds + kind]));
    }
    if (range.n == 0) continue;
    range.absmax = largest(by_pass);
    if (n_passes > 1) range.growth = growth_from(largest(std::span(by_pass).first(n_passes - 1)), by_pass.back());
    all.push_back(range);
  }
  return all;
}

}  // namespace

std::vector<GroupRange> ranges_by_tag(const SiteStatistics& site, const RunRecord& run) {
  const std::vector<float> maxima = prompt_maxima(site, run.n_passes);
  std::vector<GroupRange> all;
  for (const auto& [tag, prompts] : run.tags) {
    std::vector<float> of_tag;
    for (const uint64_t prompt : prompts) of_tag.push_back(maxima.at(prompt));
    GroupRange range = {tag, prompts.size(), largest(of_tag), std::nullopt};
    if (const size_t n = of_tag.size(); n > 1) {
      const size_t before = n - std::max<size_t>(1, n / 4);
      range.growth = growth_from(largest(std::span(of_tag).first(before)), largest(std::span(of_tag).subspan(before)));
    }
    all.push_back(range);
  }
  return all;
}

std::vector<GroupRange> ranges_by_role(const SiteStatistics& site) {
  return ranges_by_kind(site, kTokenRoles, role_of_kind);
}

std::vector<GroupRange> ranges_by_turn(const SiteStatistics& site) {
  return ranges_by_kind(site, kTokenTurns, turn_of_kind);
}

}  // namespace kvcal
