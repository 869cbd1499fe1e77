// What kvcal drift prints.
#pragma once

#include <string>
#include <vector>

#include "artifact/drift.h"
#include "base/json.h"
#include "base/lines.h"

namespace kvcal {

/// One row a site, and a line that says what is broken, since when.
Lines drift_text(const std::vector<SiteDrift>& sites);

/// What is infinite is null.
Json drift_json(const std::vector<SiteDrift>& sites);

/// Prometheus' text exposition format: one gauge a figure, labels "layer" and "site". Where a limit is broken, an info
/// metric says since when.
Lines drift_prometheus(const std::vector<SiteDrift>& sites);

}  // namespace kvcal
