// Changes single members of a JSON file and leaves every other byte as its author wrote it. Servers read keys that a
// round trip through another program's model of the config would drop or rename.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/json.h"

namespace kvcal {

struct JsonMember {
  std::string key;
  Json value;
};

/// The text with these members set in the object at `path` (member names from the root; none: the root). A member that
/// is there gets its new value in its place, the others follow the last one, in the text's own indentation and line
/// ends. Throws Error when the text is not sound JSON (two equal keys included), or when there is no object at `path`.
std::string set_json_members(std::string_view text, std::span<const std::string> path,
                             std::span<const JsonMember> members);

/// The text without these members of the object at `path`; keys that it does not have change nothing. Throws as above.
std::string remove_json_members(std::string_view text, std::span<const std::string> path,
                                std::span<const std::string> keys);

}  // namespace kvcal
