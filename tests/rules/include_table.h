// Which folders may include which, as data: the rule checks it, and docs/development.md shows it.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace kvcal::rules {

/// What the files of a folder may include besides the folder itself. A folder inside another one is a folder of its
/// own: "ops" does not allow "ops/cpu".
struct IncludeRule {
  std::string_view folder;                    // below lib/, or kernels
  std::string_view remark;                    // what docs/development.md says of it
  std::vector<std::string_view> may_include;  // folders, or single headers
};

/// From the bottom to the top.
std::span<const IncludeRule> include_table();

/// The entry of a folder; null where it has none.
const IncludeRule* include_rule_of(std::string_view folder);

}  // namespace kvcal::rules
