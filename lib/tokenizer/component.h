// How all parts of tokenizer.json are read: an object with a "type" that chooses the class.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/json.h"

namespace kvcal {

/// The "type" of a component; throws Error naming `part` ("normalizer") when it is no object or has no type.
std::string component_type(const Json& component, const std::string& part);

/// The array under `key`; throws Error when it is missing or no array.
const Json& component_list(const Json& component, const char* key);

/// "[3]": the place in a list, for messages.
std::string list_position(size_t index);

/// Makes the steps of a Sequence in order, leaving out those that `make` returns as null.
template <class Step>
std::vector<std::unique_ptr<Step>> make_steps(const Json& list, std::unique_ptr<Step> (*make)(const Json&)) {
  std::vector<std::unique_ptr<Step>> steps;
  for (size_t i = 0; i < list.size(); ++i)
    while_doing(list_position(i), [&] {
      if (auto step = make(list[i])) steps.push_back(std::move(step));
    });
  return steps;
}

/// Throws Error: this kind is not supported, with the list of those that are.
[[noreturn]] void fail_unsupported(const std::string& part, const std::string& kind,
                                   const std::vector<std::string>& supported);

/// A member that must be a string of exactly one code point.
char32_t get_code_point(const Json& component, const char* key);

/// A {"String": s} or {"Regex": s} pattern.
struct Pattern {
  bool is_regex = false;
  std::string text;
};
Pattern get_pattern(const Json& component);

}  // namespace kvcal
