#include "artifact/schema_check.h"

#include <algorithm>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

namespace kvcal {
namespace {

using PlainJson = nlohmann::json;  // what the validator's adapter is made for
using Adapter = valijson::adapters::NlohmannJsonAdapter;

// The standard library's regular expressions recurse once per character; a hostile string could exhaust the stack.
constexpr size_t kLongestString = 4096;

void append_step(std::string& path, const std::string& member) {
  if (!path.empty()) path += ".";
  path += member;
}

/// "<root>", "[layers]", "[3]", "[key]" as "layers[3].key"; a step into an object is a member even when it is a number.
std::string path_of(const PlainJson& document, const std::vector<std::string>& context) {
  std::string path;
  const PlainJson* here = &document;
  for (const std::string& step : context) {
    if (step.size() < 2 || step.front() != '[') continue;  // "<root>"
    const std::string inside = step.substr(1, step.size() - 2);
    if (here->is_array()) {
      path += step;
      here = &here->at(std::stoul(inside));
    } else {
      append_step(path, inside);
      here = &here->at(inside);
    }
  }
  return path;
}

/// Says only that a member of this value failed, which has an entry of its own.
bool repeats_an_inner_error(const std::string& message) {
  return message.starts_with("Failed to validate against schema associated with property name") ||
         message.starts_with("Failed to validate against additional properties schema") ||
         message.starts_with("Failed to validate item #") ||
         message.starts_with("Failed to validate against a conditional schema") ||
         message.starts_with("Failed to validate against child schema #");
}

/// Name of the member in "Object contains a property that could not be validated ...: 'x'.", else "".
std::string unknown_member_in(const std::string& message) {
  if (!message.starts_with("Object contains a property that could not be validated using 'properties'")) return "";
  const size_t from = message.find(": '"), to = message.rfind('\'');
  return from == std::string::npos || to < from + 3 ? "" : message.substr(from + 3, to - from - 3);
}

using Names = std::span<const std::string_view>;

void find_long_strings(const Json& value, const std::string& path, Names free_texts, std::vector<SchemaError>& out) {
  const auto check = [&](const std::string& text, const std::string& where) {
    if (text.size() > kLongestString)
      out.push_back(
          {where,
           "text of " + std::to_string(text.size()) + " bytes, at most " + std::to_string(kLongestString) + " are read",
           ""});
  };
  if (value.is_string()) check(value.get_ref<const std::string&>(), path);
  if (value.is_object())
    for (const auto& [key, member] : value.items()) {
      check(key, path);
      if (member.is_string() && std::ranges::find(free_texts, key) != free_texts.end()) continue;
      std::string inner = path;
      append_step(inner, key);
      find_long_strings(member, inner, free_texts, out);
    }
  if (value.is_array())
    for (size_t i = 0; i < value.size(); ++i)
      find_long_strings(value[i], path + "[" + std::to_string(i) + "]", free_texts, out);
}

valijson::ValidationResults validate(const PlainJson& document, const PlainJson& schema_json) {
  valijson::ValidationResults results;
  try {
    valijson::Schema schema;
    valijson::SchemaParser().populateSchema(Adapter(schema_json), schema);
    valijson::Validator().validate(schema, Adapter(document), &results);
  } catch (const std::exception& e) {  // the validator's own, and std::regex_error
    fail(std::string("the schema cannot be used: ") + e.what());
  }
  return results;
}

}  // namespace

std::vector<SchemaError> check_schema(const Json& document, std::string_view schema_text,
                                      std::span<const std::string_view> free_texts) {
  std::vector<SchemaError> errors;
  find_long_strings(document, "", free_texts, errors);
  if (!errors.empty()) return errors;

  const PlainJson schema_json = while_doing("the schema", [&] { return PlainJson(parse_json(schema_text)); });
  const PlainJson plain = document;
  for (const auto& error : validate(plain, schema_json))
    if (!repeats_an_inner_error(error.description))
      errors.push_back({path_of(plain, error.context), error.description, unknown_member_in(error.description)});
  return errors;
}

}  // namespace kvcal
