// Typed access to parsed JSON, and its canonical text.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "base/json.h"

namespace kvcal {
namespace {

std::string describe(const Json& value) {
  if (value.is_string()) return "the string " + quoted(value.get_ref<const std::string&>());
  if (value.is_object()) return "an object";
  if (value.is_binary()) return large_integer_digits(value);
  if (value.is_array()) return "a list of " + std::to_string(value.size());
  return value.is_number_float() && !std::isfinite(value.get<double>()) ? "a non-finite number" : value.dump();
}

[[noreturn]] void fail_type(const Json& value, const char* key, std::string_view where, const char* expected) {
  fail("key " + quoted(std::string(where) + key) + " is " + describe(value) + ", expected " + expected);
}

const Json& need(const Json& object, const char* key, std::string_view where) {
  const std::string path = std::string(where) + key;
  if (!object.is_object())
    fail("key " + quoted(path) + " is looked for in " + describe(object) + ", expected an object");
  const Json* value = find_member(object, key);
  if (value) return *value;
  std::vector<std::string> known;
  for (const auto& member : object.items()) known.push_back(member.key());
  const std::string near = nearest_match(key, known);
  fail("key " + quoted(path) + " is missing" + (object.contains(key) ? " (null)" : "") +
       (near.empty() || near == key ? "" : "; is " + quoted(near) + " a misspelling of it?"));
}

/// Whole numbers, also those written as 4096.0; nothing that a double could have rounded.
bool as_int(const Json& value, int64_t& out) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    out = static_cast<int64_t>(number);
    return number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  }
  if (value.is_number_integer()) {
    out = value.get<int64_t>();
    return true;
  }
  if (!value.is_number_float()) return false;
  const double number = value.get<double>();
  if (!(std::fabs(number) <= kExact) || number != std::trunc(number)) return false;
  out = static_cast<int64_t>(number);
  return true;
}

int64_t to_int(const Json& value, const char* key, std::string_view where) {
  int64_t number = 0;
  if (!as_int(value, number)) fail_type(value, key, where, "a whole number");
  return number;
}

double to_number(const Json& value, const char* key, std::string_view where) {
  if (!value.is_number()) fail_type(value, key, where, "a number");
  return value.get<double>();
}

std::string to_string(const Json& value, const char* key, std::string_view where) {
  if (!value.is_string()) fail_type(value, key, where, "a string");
  return value.get<std::string>();
}

void append_number(std::string& out, const Json& value) {
  int64_t whole = 0;
  if (as_int(value, whole)) {
    out += std::to_string(whole);
    return;
  }
  if (value.is_number_unsigned()) {
    out += std::to_string(value.get<uint64_t>());
    return;
  }
  const double number = value.get<double>();
  if (std::isnan(number)) {
    out += "\"NaN\"";
  } else if (std::isinf(number)) {
    out += number < 0 ? "\"-Infinity\"" : "\"Infinity\"";
  } else {
    char text[40];
    const auto end = std::to_chars(text, text + sizeof text, number);
    out.append(text, end.ptr);
  }
}

void append_canonical(std::string& out, const Json& value) {
  if (value.is_object()) {
    std::vector<const Json::object_t::value_type*> members;
    for (const auto& member : value.get_ref<const Json::object_t&>()) members.push_back(&member);
    std::sort(members.begin(), members.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
    out += '{';
    for (const auto* member : members) {
      if (member != members.front()) out += ',';
      append_canonical(out, Json(member->first));
      out += ':';
      append_canonical(out, member->second);
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (size_t i = 0; i < value.size(); ++i) {
      if (i > 0) out += ',';
      append_canonical(out, value[i]);
    }
    out += ']';
  } else if (value.is_number()) {
    append_number(out, value);
  } else if (value.is_binary()) {
    out += large_integer_digits(value);
  } else {
    out += value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
}

}  // namespace

std::string large_integer_digits(const Json& value) {
  const Json::binary_t& bytes = value.get_binary();
  return std::string(bytes.begin(), bytes.end());
}

int64_t get_int(const Json& object, const char* key, std::string_view where) {
  return to_int(need(object, key, where), key, where);
}

double get_number(const Json& object, const char* key, std::string_view where) {
  return to_number(need(object, key, where), key, where);
}

std::string get_string(const Json& object, const char* key, std::string_view where) {
  return to_string(need(object, key, where), key, where);
}

int64_t get_int_or(const Json& object, const char* key, int64_t fallback, std::string_view where) {
  const Json* value = find_member(object, key);
  return value ? to_int(*value, key, where) : fallback;
}

double get_number_or(const Json& object, const char* key, double fallback, std::string_view where) {
  const Json* value = find_member(object, key);
  return value ? to_number(*value, key, where) : fallback;
}

bool get_bool_or(const Json& object, const char* key, bool fallback, std::string_view where) {
  const Json* value = find_member(object, key);
  if (!value) return fallback;
  if (!value->is_boolean()) fail_type(*value, key, where, "true or false");
  return value->get<bool>();
}

std::string get_string_or(const Json& object, const char* key, std::string_view fallback, std::string_view where) {
  const Json* value = find_member(object, key);
  return value ? to_string(*value, key, where) : std::string(fallback);
}

const Json* find_member(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  for (const auto& member : object.get_ref<const Json::object_t&>())
    if (member.first == key) return member.second.is_null() ? nullptr : &member.second;
  return nullptr;
}

std::string canonical_json(const Json& value) {
  std::string out;
  append_canonical(out, value);
  return out;
}

}  // namespace kvcal
