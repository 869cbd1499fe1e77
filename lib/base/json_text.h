// Texts of JSON that is not ours: what is absent, or of another type, says nothing.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace kvcal {

/// The member's text; "" where `object` is none, or has no such text.
inline std::string text_at(const Json& object, std::string_view key) {
  const Json* member = object.is_object() ? find_member(object, key) : nullptr;
  return member != nullptr && member->is_string() ? member->get<std::string>() : "";
}

}  // namespace kvcal
