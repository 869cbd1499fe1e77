// Letters and digits of ASCII, which names of options, formats and findings are made of, whatever the locale.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace kvcal {

constexpr char lower_case(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

constexpr bool is_letter_or_digit(char c) {
  return (lower_case(c) >= 'a' && lower_case(c) <= 'z') || (c >= '0' && c <= '9');
}

inline std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = lower_case(c);
  return out;
}

inline std::string upper_case(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

inline bool same_but_for_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower_case(x) == lower_case(y); });
}

}  // namespace kvcal
