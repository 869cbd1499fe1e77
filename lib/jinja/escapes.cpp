#include "jinja/escapes.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "unicode/utf8.h"

namespace kvcal::jinja {
namespace {

// Reads up to `most` digits at `i`; at least `least` must be there.
char32_t read_digits(std::string_view s, size_t& i, size_t least, size_t most, int base) {
  uint32_t value = 0;
  const size_t n = std::min(most, s.size() - i);
  const auto result = std::from_chars(s.data() + i, s.data() + i + n, value, base);
  const size_t used = result.ec == std::errc() ? static_cast<size_t>(result.ptr - (s.data() + i)) : 0;
  if (used < least) fail("broken escape in a string literal");
  i += used;
  return value;
}

void append_checked(std::string& out, char32_t c) {
  if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) fail("an escape in a string literal is not a character");
  append_utf8(out, c);
}

/// What a letter after the backslash stands for, and nothing for those that stand for more than one character.
std::string_view simple_escape(char c) {
  static constexpr std::pair<char, std::string_view> kEscapes[] = {
      {'\n', ""},  // a continued line
      {'\\', "\\"}, {'\'', "'"}, {'"', "\""}, {'a', "\a"}, {'b', "\b"},
      {'f', "\f"},  {'n', "\n"}, {'r', "\r"}, {'t', "\t"}, {'v', "\v"},
  };
  const auto* found = std::ranges::find(kEscapes, c, &std::pair<char, std::string_view>::first);
  return found == std::end(kEscapes) ? std::string_view() : found->second;
}

/// The escape whose letter is `c`; `i` is behind it.
void append_escape(std::string& out, char c, std::string_view s, size_t& i) {
  switch (c) {
    case 'x':
      return append_checked(out, read_digits(s, i, 2, 2, 16));
    case 'u':
      return append_checked(out, read_digits(s, i, 4, 4, 16));
    case 'U':
      return append_checked(out, read_digits(s, i, 8, 8, 16));
    case 'N':
      fail("escape \\N{...} in a string literal is not supported");
    default:
      break;
  }
  if (c >= '0' && c <= '7') return append_checked(out, read_digits(s, --i, 1, 3, 8));
  const std::string_view simple = simple_escape(c);
  if (simple.data())
    out += simple;
  else
    (out += '\\') += c;
}

}  // namespace

std::string unescape_python(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  for (size_t i = 0; i < s.size();) {
    if (s[i] != '\\' || i + 1 == s.size()) {
      out += s[i++];
      continue;
    }
    i += 2;
    append_escape(out, s[i - 1], s, i);
  }
  return out;
}

}  // namespace kvcal::jinja
