// The JSON in a statistics file's __metadata__: what was run, and the layout of every cache.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "stats/run_record.h"

namespace kvcal {

Json layout_to_json(const KvLayout& layout);
Json layout_to_json(const StateLayout& layout);

/// Compact, keys in fixed order; prompt ids are not in it (they are a tensor). Throws Error for text that is no UTF-8.
std::string metadata_of(const Statistics& statistics);

struct StatisticsMetadata {
  RunRecord run;                  // without prompt ids and tags
  std::vector<std::string> tags;  // ascending
  std::vector<KvLayout> layouts;  // by cache
  std::vector<StateLayout> states;
  int64_t minor_version = 0;
};

/// Checks format, version, types and ranges. Throws Error.
StatisticsMetadata parse_metadata(std::string_view text);

}  // namespace kvcal
