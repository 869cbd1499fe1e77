// Had the largest magnitudes settled when the prompts ran out?
//
// Rule: a site has converged when neither of two steps raised its absmax by more than limits.growth (20 %):
//   the last quarter of the prompts, in id order, all passes, against the prompts before it;
//   the last pass, which packs the same prompts otherwise, against the passes before it (where there are at least two);
// and when its absmax depends on no single prompt (solve/dependence.h), wherever in the order it stands.
// Ids are hashes of the content unless the user gave them, so their order is as good as random. With fewer than two
// prompts there is nothing to compare, and nothing has been shown to converge.
#pragma once

#include <optional>
#include <vector>

#include "solve/dependence.h"
#include "solve/options.h"
#include "solve/range_coverage.h"
#include "stats/run_record.h"

namespace kvcal {

struct Growth {
  // Of passes 2, 3, ...: absmax up to this pass / absmax before it - 1; none where nothing came before.
  std::vector<std::optional<double>> per_pass;
  std::optional<double> last_quarter;  // the same for the last quarter of the prompts; none where nothing came before
  std::optional<double> position;      // absmax in the last filled position bucket / absmax before it - 1
  std::optional<PromptDependence> depends_on;
  std::optional<TagDependence> depends_on_tag;
  std::optional<RangeCoverage> coverage;  // none for fewer than two prompts
  bool converged = false;
  bool operator==(const Growth&) const = default;
};

/// headroom: of the policy in force, if it has one.
Growth growth_of(const SiteStatistics& site, const RunRecord& run, const AssessmentLimits& limits,
                 std::optional<double> headroom);

}  // namespace kvcal
