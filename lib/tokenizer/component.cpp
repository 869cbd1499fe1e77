#include "tokenizer/component.h"

#include "unicode/utf8.h"

namespace kvcal {

std::string component_type(const Json& component, const std::string& part) {
  if (!component.is_object())
    fail(part + " is " + std::string(component.type_name()) + ", expected an object with a \"type\"");
  return get_string(component, "type");
}

const Json& component_list(const Json& component, const char* key) {
  const Json* list = find_member(component, key);
  if (!list || !list->is_array()) fail(std::string(key) + " is missing or no array");
  return *list;
}

std::string list_position(size_t index) {
  std::string text = "[";
  text += std::to_string(index);
  return text += "]";
}

void fail_unsupported(const std::string& part, const std::string& kind, const std::vector<std::string>& supported) {
  std::string message = part + " of type " + quoted(kind) + " is not supported; supported: ";
  for (size_t i = 0; i < supported.size(); ++i) message += (i ? ", " : "") + supported[i];
  fail(message);
}

char32_t get_code_point(const Json& component, const char* key) {
  const std::string text = get_string(component, key);
  size_t i = 0;
  const char32_t c = text.empty() ? 0 : next_code_point(text, i);
  if (text.empty() || i != text.size()) fail(std::string(key) + " is " + quoted(text) + ", expected one character");
  return c;
}

Pattern get_pattern(const Json& component) {
  const Json* pattern = find_member(component, "pattern");
  if (pattern && pattern->is_object())
    for (const char* kind : {"String", "Regex"})
      if (const Json* text = find_member(*pattern, kind); text && text->is_string())
        return {std::string_view(kind) == "Regex", text->get<std::string>()};
  fail(R"(pattern is missing or not {"String": ...} or {"Regex": ...})");
}

}  // namespace kvcal
