#include "unicode/grapheme.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "unicode/utf8.h"

namespace kvcal {
namespace {

struct Range {
  char32_t first, last;
};

// Marks that belong to the character before them in the reference (Unicode 17) and that utf8proc 2.8 does not know:
// found by asking the reference about every code point.
constexpr Range kYoungMarks[] = {{0x897, 0x897},     {0x1ACF, 0x1ADD},   {0x1AE0, 0x1AEB},   {0x10D69, 0x10D6D},
                                 {0x10EFA, 0x10EFC}, {0x113B8, 0x113C0}, {0x113C2, 0x113C2}, {0x113C5, 0x113C5},
                                 {0x113C7, 0x113CA}, {0x113CC, 0x113D0}, {0x113D2, 0x113D2}, {0x113E1, 0x113E2},
                                 {0x11B60, 0x11B67}, {0x11F5A, 0x11F5A}, {0x1611E, 0x1612F}, {0x1E5EE, 0x1E5EF},
                                 {0x1E6E3, 0x1E6E3}, {0x1E6E6, 0x1E6E6}, {0x1E6EE, 0x1E6EF}, {0x1E6F5, 0x1E6F5}};

// A code point that utf8proc treats as the reference treats `code`.
char32_t stand_in(char32_t code) {
  const auto it = std::upper_bound(std::begin(kYoungMarks), std::end(kYoungMarks), code,
                                   [](char32_t c, const Range& r) { return c < r.first; });
  if (it != std::begin(kYoungMarks) && code <= std::prev(it)->last) return 0x300;
  if (code == 0x113D1) return 0x600;  // belongs to what follows it
  if (code == 0x11A3A) return U'a';   // no longer does
  return code;
}

}  // namespace

void for_each_grapheme(std::string_view text, const std::function<void(std::string_view)>& take) {
  size_t begin = 0;
  utf8proc_int32_t previous = 0, state = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t at = i;
    const auto code = static_cast<utf8proc_int32_t>(stand_in(next_code_point(text, i)));
    if (at > 0 && utf8proc_grapheme_break_stateful(previous, code, &state)) {
      take(text.substr(begin, at - begin));
      begin = at;
    }
    previous = code;
  }
  if (begin < text.size()) take(text.substr(begin));
}

}  // namespace kvcal
