#include "artifact/json_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/number_text.h"

namespace kvcal {
namespace {

constexpr size_t kColumns = 120;

std::string plain_text(const Json& value) {
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (!std::isfinite(number)) fail("JSON cannot hold infinity or NaN");
    return shortest_double(number);
  }
  try {
    return value.dump();
  } catch (const nlohmann::json::exception&) {
    fail("text that is not UTF-8 cannot be written as JSON");
  }
}

std::string key_text(const std::string& key) { return plain_text(Json(key)) + ": "; }

bool is_flat(const Json& value) {
  return std::none_of(value.begin(), value.end(), [](const Json& member) { return member.is_structured(); });
}

std::string one_line(const Json& value) {
  if (!value.is_structured()) return plain_text(value);
  std::string inside;
  for (const auto& [key, member] : value.items()) {
    if (!inside.empty()) inside += ", ";
    inside += (value.is_object() ? key_text(key) : "") + plain_text(member);
  }
  if (value.is_array()) return "[" + inside + "]";
  return inside.empty() ? "{}" : "{ " + inside + " }";
}

// `column`: what already stands on the line in front of the value.
void append(std::string& out, const Json& value, size_t indent, size_t column) {
  if (!value.is_structured() || is_flat(value)) {
    const std::string line = one_line(value);
    if (!value.is_object() || column + line.size() <= kColumns) {
      out += line;
      return;
    }
  }
  out += value.is_object() ? "{\n" : "[\n";
  const std::string margin(indent + 2, ' ');
  bool first = true;
  for (const auto& [key, member] : value.items()) {
    if (!first) out += ",\n";
    first = false;
    const std::string name = value.is_object() ? key_text(key) : "";
    out += margin + name;
    append(out, member, indent + 2, margin.size() + name.size() + 1);
  }
  out += "\n" + std::string(indent, ' ') + (value.is_object() ? "}" : "]");
}

}  // namespace

std::string json_text(const Json& value) {
  std::string out;
  append(out, value, 0, 0);
  return out + "\n";
}

Json json_number(float value) {
  if (!std::isfinite(value)) fail("JSON cannot hold infinity or NaN");
  const std::string text = shortest_float(value);
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace kvcal
