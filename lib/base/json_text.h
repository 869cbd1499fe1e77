// Texts of JSON that is not ours: what is absent, or of another type, says nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"

namespace kvcal {

/// The member's text; "" where `object` is none, or has no such text.
inline std::string text_at(const Json& object, std::string_view key) {
  const Json* member = object.is_object() ? find_member(object, key) : nullptr;
  return member != nullptr && member->is_string() ? member->get<std::string>() : "";
}

/// The member; an empty object where it is none.
inline const Json& object_at(const Json& object, std::string_view key) {
  static const Json kNone = Json::object();
  const Json* member = object.is_object() ? find_member(object, key) : nullptr;
  return member != nullptr && member->is_object() ? *member : kNone;
}

/// The member; an empty list where it is none.
inline const Json& list_at(const Json& object, std::string_view key) {
  static const Json kNone = Json::array();
  const Json* member = object.is_object() ? find_member(object, key) : nullptr;
  return member != nullptr && member->is_array() ? *member : kNone;
}

/// The member; 0 where it is no integer.
inline int64_t integer_at(const Json& object, std::string_view key) {
  const Json* member = object.is_object() ? find_member(object, key) : nullptr;
  return member != nullptr && member->is_number_integer() ? member->get<int64_t>() : 0;
}

}  // namespace kvcal
