// A site's largest magnitude by what its tokens are: tags of their prompts, who says them, in which turn of a chat.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "stats/run_record.h"

namespace kvcal {

struct GroupRange {
  std::string name;
  uint64_t n = 0;  // prompts of a tag; tokens of a role or turn
  float absmax = 0;
  /// What the last quarter of a tag's prompts, in id order, added to the others, or the last pass to a role or turn;
  /// none where nothing came before.
  std::optional<double> growth;
  bool operator==(const GroupRange&) const = default;
};

/// By name. Throws Error as pass_growth() does.
std::vector<GroupRange> ranges_by_tag(const SiteStatistics& site, const RunRecord& run);

/// Those that have tokens, in the order of base/token_kind.h. Empty where kinds were not told apart.
std::vector<GroupRange> ranges_by_role(const SiteStatistics& site);
std::vector<GroupRange> ranges_by_turn(const SiteStatistics& site);

}  // namespace kvcal
