#include "jinja/escapes.h"

#include <charconv>

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

}  // namespace

std::string unescape_python(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  for (size_t i = 0; i < s.size();) {
    if (s[i] != '\\' || i + 1 == s.size()) {
      out += s[i++];
      continue;
    }
    const char c = s[i + 1];
    i += 2;
    switch (c) {
      case '\n':
        break;  // a continued line
      case '\\':
      case '\'':
      case '"':
        out += c;
        break;
      case 'a':
        out += '\a';
        break;
      case 'b':
        out += '\b';
        break;
      case 'f':
        out += '\f';
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case 't':
        out += '\t';
        break;
      case 'v':
        out += '\v';
        break;
      case 'x':
        append_checked(out, read_digits(s, i, 2, 2, 16));
        break;
      case 'u':
        append_checked(out, read_digits(s, i, 4, 4, 16));
        break;
      case 'U':
        append_checked(out, read_digits(s, i, 8, 8, 16));
        break;
      case 'N':
        fail("escape \\N{...} in a string literal is not supported");
      default:
        if (c >= '0' && c <= '7') {
          --i;
          append_checked(out, read_digits(s, i, 1, 3, 8));
        } else {
          out += '\\';
          out += c;
        }
    }
  }
  return out;
}

}  // namespace kvcal::jinja
