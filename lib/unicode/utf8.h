// UTF-8 as the tokenizers need it: one way in (repair, counted), then text that is valid everywhere else.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kvcal {

struct RepairedText {
  std::string text;     // valid UTF-8
  size_t replaced = 0;  // number of U+FFFD put in the place of malformed sequences
};

/// Replaces every maximal malformed subpart by U+FFFD, as the WHATWG encoding standard does.
RepairedText repair_utf8(std::string_view bytes);

/// The code point at text[i]; moves i behind it. `text` must be valid UTF-8 and i a boundary in it.
char32_t next_code_point(std::string_view text, size_t& i);

/// Length in bytes of the sequence that begins with this byte of valid UTF-8.
inline size_t utf8_length(char lead) {
  const auto c = static_cast<unsigned char>(lead);
  return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

void append_utf8(std::string& out, char32_t code);

/// Code points of valid UTF-8, and back.
std::u32string to_code_points(std::string_view text);
std::string from_code_points(std::u32string_view codes);

}  // namespace kvcal
