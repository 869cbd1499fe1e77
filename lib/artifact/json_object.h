// Members of a JSON object in a file of ours: looked up with their path, checked for type and range. Throws Error.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/json.h"

namespace kvcal {

/// How base/json.h names a member in its messages.
inline std::string member_at(const std::string& path) { return "key " + quoted(path); }

/// An object and the path that leads to it, "layers[3].key.".
struct Object {
  const Json& json;
  std::string where;

  bool has(const char* key) const { return find_member(json, key) != nullptr; }
  const Json& at(const char* key) const {
    const Json* member = find_member(json, key);
    if (member == nullptr) fail(member_at(where + key) + " is missing");
    return *member;
  }
  Object object(const char* key) const {
    const Json& member = at(key);
    if (!member.is_object()) fail(member_at(where + key) + " is " + member.type_name() + ", expected an object");
    return {member, where + key + "."};
  }
  const Json& array(const char* key) const {
    const Json& member = at(key);
    if (!member.is_array()) fail(member_at(where + key) + " is " + member.type_name() + ", expected an array");
    return member;
  }
  double number(const char* key) const { return get_number(json, key, where); }
  std::optional<double> optional_number(const char* key) const {
    return has(key) ? std::optional(number(key)) : std::nullopt;
  }
  std::string string(const char* key) const { return get_string(json, key, where); }
  bool boolean(const char* key) const {
    const Json& member = at(key);
    if (!member.is_boolean()) fail(member_at(where + key) + " is " + member.type_name() + ", expected true or false");
    return member.get<bool>();
  }
  int64_t count(const char* key, int64_t largest = std::numeric_limits<int64_t>::max()) const {
    const int64_t value = get_int(json, key, where);
    if (value < 0 || value > largest)
      fail(member_at(where + key) + " is " + std::to_string(value) + ", expected 0 to " + std::to_string(largest));
    return value;
  }
};

}  // namespace kvcal
