// The part of `kvcal stats` about prompts and kinds of tokens: are there enough of them, and which of them set the
// ranges?
#pragma once

#include <string>

#include "base/json.h"
#include "base/lines.h"
#include "stats/run_record.h"

namespace kvcal {

/// {"depends_on", "depends_on_tag", "coverage", "by_tag", "by_role", "by_turn"} of a site.
Json evidence_json(const SiteStatistics& site, const RunRecord& run);

/// Two tables: what the range of each site depends on, and by tag, role and turn.
Lines evidence_tables(const Statistics& statistics);

}  // namespace kvcal
