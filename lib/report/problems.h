// which sites need something, so that the page begins with them.
#pragma once

#include <string>
#include <vector>

#include "report/report.h"

namespace kvcal {

/// A site and the layer that has it; refers to the artifact.
struct ListedSite {
  const ArtifactLayer* layer = nullptr;
  NamedSite site{};
};

/// Every site of every layer, in the order of tables.
std::vector<ListedSite> listed_sites(const Artifact& artifact);

/// Whether its scale is needed, or the format is not fine there.
bool needs_something(const Assessment& assessment);

/// Those that do: what the cache keeps before queries, the worse answer first, then what is further beyond its limit.
std::vector<ListedSite> problem_sites(const Artifact& artifact);

/// How urgent the two answers are together; 0 where nothing is to be done.
int urgency(ScaleNeed scale, Fitness fp8);

}  // namespace kvcal
