// Had the largest magnitudes settled when the prompts ran out?
//
// Rule: a site has converged when neither of two steps raised its absmax by more than limits.growth (20 %):
//   the last quarter of the prompts, in id order, all passes, against the prompts before it;
//   the last pass, against the passes before it (only where there are at least two).
// Ids are hashes of the content unless the user gave them, so their order is as good as random. With fewer than two
// prompts there is nothing to compare, and nothing has been shown to converge.
#pragma once

#include <optional>
#include <vector>

#include "stats/run_record.h"

namespace kvcal {

struct Growth {
  // Of passes 2, 3, ...: absmax up to this pass / absmax before it - 1; none where nothing came before.
  std::vector<std::optional<double>> per_pass;
  std::optional<double> last_quarter;  // the same for the last quarter of the prompts; none where nothing came before
  std::optional<double> position;      // absmax in the last filled position bucket / absmax before it - 1
  bool converged = false;
  bool operator==(const Growth&) const = default;
};

Growth growth_of(const SiteStatistics& site, const RunRecord& run, double limit);

}  // namespace kvcal
