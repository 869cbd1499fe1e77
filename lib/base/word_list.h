// Sets of words that are written as one text, with spaces between them.
#pragma once

#include <string>
#include <string_view>

namespace kvcal {

/// Whether one of the list's words is this one. Several are none.
inline bool has_word(std::string_view list, std::string_view word) {
  return word.find(' ') == word.npos &&
         (" " + std::string(list) + " ").find(" " + std::string(word) + " ") != std::string::npos;
}

/// Whether a text begins with one of the list's words.
inline bool begins_with_word(std::string_view list, std::string_view text) {
  for (std::string_view rest = list; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(' '));
    if (text.starts_with(word)) return true;
    rest.remove_prefix(word.size() + (word.size() < rest.size() ? 1 : 0));
  }
  return false;
}

}  // namespace kvcal
