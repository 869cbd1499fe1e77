#include "doctor/shell_variables.h"

#include <algorithm>
#include <optional>

#include "base/letter_case.h"

namespace kvcal {
namespace {

constexpr size_t kMostReferenceBytes = 1024;

std::string_view name_at_front(std::string_view text) {
  const auto is_of_name = [](char c) { return c == '_' || is_letter_or_digit(c); };
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return "";
  return text.substr(0, static_cast<size_t>(std::ranges::find_if_not(text, is_of_name) - text.begin()));
}

/// "${A:-${B}}" at the front; "" where it does not end.
std::string_view in_braces(std::string_view text) {
  size_t depth = 0;
  for (size_t i = 0; i < std::min(text.size(), kMostReferenceBytes); ++i) {
    if (text.substr(i).starts_with("${")) ++depth;
    if (text[i] == '}' && --depth == 0) return text.substr(0, i + 1);
  }
  return "";
}

/// Text that read_words() takes for this value.
std::string escaped(std::string_view value, char quote, Spaces spaces) {
  const std::string special = quote == '"' ? "\"\\" : spaces == Spaces::KeepWord ? "\"'\\;|&<>`# \t" : "\"'\\;|&<>`#";
  std::string text;
  for (const char c : value) text += special.find(c) == special.npos ? std::string(1, c) : std::string{'\\', c};
  return text;
}

/// Of a reference at the front of a text.
struct Reference {
  std::string_view written;  // "": none is there
  std::string_view name;
  std::string_view modifier;  // ":-word"; "" for the value itself
};

Reference reference_at_front(std::string_view text) {
  if (!text.starts_with("${")) {
    const std::string_view name = name_at_front(text.substr(1));
    return {name.empty() ? "" : text.substr(0, 1 + name.size()), name, ""};
  }
  const std::string_view written = in_braces(text);
  if (written.empty()) return {};
  const std::string_view inner = written.substr(2, written.size() - 3), name = name_at_front(inner);
  return {written, name, inner.substr(name.size())};
}

/// Text to put in place of a reference: of a value, or the word of a modifier, which has quotes of its own. Nothing
/// where that is not known.
struct Replacement {
  std::optional<std::string_view> value, word;
};

Replacement replacement_of(const Reference& reference, const Variables& variables) {
  const auto found = variables.find(reference.name);
  const bool known = found != variables.end();
  std::string_view modifier = reference.modifier;
  const bool empty_is_unset = modifier.starts_with(":");
  if (empty_is_unset) modifier.remove_prefix(1);
  const bool set = known && !(empty_is_unset && found->second.empty());
  const bool otherwise = modifier.starts_with("-");
  if (set && (reference.modifier.empty() || otherwise || modifier.starts_with("?"))) return {found->second, {}};
  if (otherwise || (set && modifier.starts_with("+"))) return {{}, modifier.substr(1)};
  return {};
}

}  // namespace

std::string VariableExpander::expanded(std::string_view text, const Variables& variables, Spaces spaces, char quote) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      if (text[i + 1] != '$') out += c;
      out += text[++i];
      continue;
    }
    if (c == quote)
      quote = 0;
    else if (quote == 0 && (c == '"' || c == '\''))
      quote = c;
    const Reference reference = c == '$' && quote != '\'' ? reference_at_front(text.substr(i)) : Reference();
    if (reference.written.empty()) {
      out += c;
      continue;
    }
    const Replacement by = replacement_of(reference, variables);
    std::string put(reference.written);
    if (by.value && by.value->size() <= bytes_left_) put = escaped(*by.value, quote, spaces);
    if (by.word) put = expanded(*by.word, variables, spaces, quote);
    if (by.value) bytes_left_ -= std::min(bytes_left_, by.value->size());
    out += put;
    i += reference.written.size() - 1;
  }
  return out;
}

}  // namespace kvcal
