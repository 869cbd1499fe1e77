// What `kvcal stats` says about formats: the error of each cache site in this one and others.
#pragma once

#include <string>

#include "base/json.h"
#include "base/lines.h"
#include "stats/run_record.h"

namespace kvcal {

/// Of Key, Value or Latent (the whole row), at the default policy's scales: errors by format, null where there is none.
Json formats_json(const CacheStatistics& cache, CacheSite site, const RunRecord& run);

/// A line for each cache site.
Lines formats_table(const Statistics& statistics);

}  // namespace kvcal
