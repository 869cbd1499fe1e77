// Sets of words that are written as one text, with spaces between them.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

namespace kvcal {

inline std::vector<std::string_view> listed_words(std::string_view list) {
  std::vector<std::string_view> words;
  while (!list.empty()) {
    const std::string_view word = list.substr(0, list.find(' '));
    if (!word.empty()) words.push_back(word);
    list.remove_prefix(std::min(list.size(), word.size() + 1));
  }
  return words;
}

/// Whether one of the list's words is this one.
inline bool has_word(std::string_view list, std::string_view word) {
  const std::vector<std::string_view> words = listed_words(list);
  return std::ranges::find(words, word) != words.end();
}

/// Whether a text begins with one of the list's words.
inline bool begins_with_word(std::string_view list, std::string_view text) {
  return std::ranges::any_of(listed_words(list), [&](std::string_view word) { return text.starts_with(word); });
}

}  // namespace kvcal
