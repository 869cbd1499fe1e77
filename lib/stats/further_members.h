// Members of a JSON object that this version does not know: a later minor version may add some, and whoever passes a
// block on passes them on.
#pragma once

#include <optional>

#include "base/json.h"

namespace kvcal {

/// What the object that was read has, without the members of `known`.
Json further_members(const Json& read, const Json& known);

/// Puts them behind what this version writes.
void add_further(const Json& further, Json& written);

/// A block that a file may have as null.
template <class Info>
Json json_or_null(const std::optional<Info>& info) {
  return info ? to_json(*info) : Json();
}

}  // namespace kvcal
