// Sets of words that are written as one text, with spaces between them.
#pragma once

#include <string>
#include <string_view>

namespace kvcal {

/// Whether one of the list's words is this one.
inline bool has_word(std::string_view list, std::string_view word) {
  return (" " + std::string(list) + " ").find(" " + std::string(word) + " ") != std::string::npos;
}

}  // namespace kvcal
