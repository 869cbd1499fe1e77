#include "solve/convergence.h"

#include <algorithm>
#include <cmath>

#include "stats/queries.h"

namespace kvcal {
namespace {

std::optional<double> last_quarter_of(const SiteStatistics& site, const RunRecord& run) {
  const std::vector<float> absmax = absmax_by_prompts(site, run.n_passes);
  if (absmax.size() < 2) return std::nullopt;
  const size_t tail = std::max<size_t>(1, absmax.size() / 4);
  const double before = absmax[absmax.size() - 1 - tail];
  if (before == 0) return std::nullopt;
  return static_cast<double>(absmax.back()) / before - 1;
}

std::optional<double> position_growth(const SiteStatistics& site) {
  const std::vector<uint16_t>& buckets = site.position_absmax;
  // Codes order as their magnitudes do.
  const auto last = std::find_if(buckets.rbegin(), buckets.rend(), [](uint16_t code) { return code != 0; });
  if (last == buckets.rend() || last + 1 == buckets.rend()) return std::nullopt;
  const uint16_t before = *std::max_element(last + 1, buckets.rend());
  if (before == 0) return std::nullopt;
  return static_cast<double>(magnitude_of(*last)) / static_cast<double>(magnitude_of(before)) - 1;
}

}  // namespace

Growth growth_of(const SiteStatistics& site, const RunRecord& run, const AssessmentLimits& limits,
                 std::optional<double> headroom) {
  Growth growth;
  for (const PassGrowth& pass : pass_growth(site, run.n_passes)) {
    if (pass.pass == 1) continue;
    growth.per_pass.push_back(std::isfinite(pass.added) ? std::optional(pass.added) : std::nullopt);
  }
  growth.last_quarter = last_quarter_of(site, run);
  growth.position = position_growth(site);
  const std::vector<float> maxima = prompt_maxima(site, run.n_passes);
  growth.depends_on = depends_on_prompt(maxima, limits.dependence);
  growth.depends_on_tag = depends_on_tag(maxima, run.tags, limits.dependence);
  growth.coverage = range_coverage(maxima, headroom);
  const auto settled = [&](const std::optional<double>& g) { return g && *g <= limits.growth; };
  growth.converged = settled(growth.last_quarter) && (growth.per_pass.empty() || settled(growth.per_pass.back())) &&
                     !growth.depends_on;
  return growth;
}

}  // namespace kvcal
