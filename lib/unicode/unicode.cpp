#include "unicode/unicode.h"

#include <oniguruma.h>
#include <utf8proc.h>

#include <algorithm>
#include <span>
#include <vector>

#include "base/error.h"
#include "unicode/unicode_tables.h"
#include "unicode/utf8.h"

namespace kvcal {
namespace {

using unicode_tables::Range;

bool contains(std::span<const Range> table, char32_t c) {
  const auto it =
      std::upper_bound(table.begin(), table.end(), c, [](char32_t x, const Range& r) { return x < r.first; });
  return it != table.begin() && c <= std::prev(it)->last;
}

bool category_between(char32_t c, utf8proc_category_t first, utf8proc_category_t last) {
  const utf8proc_category_t k = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return k >= first && k <= last;
}

using Codes = std::vector<utf8proc_int32_t>;

int combining_class(utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; }

void decompose(char32_t code, bool compatibility, Codes& out) {
  const auto c = static_cast<utf8proc_int32_t>(code);
  if (compatibility && contains(unicode_tables::kNoCompatibilityMapping, code)) compatibility = false;
  const int options = UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0);
  utf8proc_int32_t buffer[32];  // the longest decomposition has 18 code points
  int boundary = 0;
  const auto n = utf8proc_decompose_char(c, buffer, 32, static_cast<utf8proc_option_t>(options), &boundary);
  if (n < 0 || n > 32) fail("utf8proc cannot decompose a code point: " + std::string(utf8proc_errmsg(n)));
  out.insert(out.end(), buffer, buffer + n);
}

// Canonical ordering. utf8proc's own exchanges neighbors, which is quadratic on long runs of marks.
void order_marks(Codes& codes) {
  for (size_t i = 0; i < codes.size();) {
    if (combining_class(codes[i]) == 0) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < codes.size() && combining_class(codes[end]) != 0) ++end;
    std::stable_sort(codes.begin() + static_cast<ptrdiff_t>(i), codes.begin() + static_cast<ptrdiff_t>(end),
                     [](auto a, auto b) { return combining_class(a) < combining_class(b); });
    i = end;
  }
}

// Appends decomposed codes, ordered and perhaps composed, and empties them.
void append_normal(Codes& codes, bool compose, std::string& out) {
  order_marks(codes);
  auto n = static_cast<utf8proc_ssize_t>(codes.size());
  if (compose) {
    const auto options = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
    n = utf8proc_normalize_utf32(codes.data(), n, options);
    if (n < 0) fail("utf8proc cannot compose: " + std::string(utf8proc_errmsg(n)));
  }
  for (utf8proc_ssize_t i = 0; i < n; ++i) append_utf8(out, static_cast<char32_t>(codes[static_cast<size_t>(i)]));
  codes.clear();
}

// Below U+0300 nothing composes with what precedes it, and in NFC nothing changes by itself.
bool is_inert(std::string_view text, NormalForm form) {
  const unsigned char limit = form == NormalForm::NFC ? 0xCC : 0x80;
  return std::all_of(text.begin(), text.end(), [&](char c) { return static_cast<unsigned char>(c) < limit; });
}

char32_t lower(char32_t c) {
  // Upper-case letters since Unicode 14 that utf8proc 2.8 maps to themselves.
  if (c >= 0x10D50 && c <= 0x10D65) return c + 0x20;
  if (c >= 0x16EA0 && c <= 0x16EB8) return c + 0x1B;
  switch (c) {
    case 0xA7CB:
      return 0x264;
    case 0xA7DC:
      return 0x19B;
    case 0x1C89:
    case 0xA7CC:
    case 0xA7CE:
    case 0xA7D2:
    case 0xA7D4:
    case 0xA7DA:
      return c + 1;
    default:
      return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
  }
}

}  // namespace

std::string to_normal_form(std::string_view text, NormalForm form) {
  if (is_inert(text, form)) return std::string(text);
  const bool compatibility = form == NormalForm::NFKC || form == NormalForm::NFKD;
  const bool compose = form == NormalForm::NFC || form == NormalForm::NFKC;
  std::string out;
  out.reserve(text.size());
  Codes codes;
  for (size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    if (contains(unicode_tables::kNotNormalized, c)) {
      append_normal(codes, compose, out);
      append_utf8(out, c);
    } else {
      decompose(c, compatibility, codes);
    }
  }
  append_normal(codes, compose, out);
  return out;
}

std::string to_lower_per_code_point(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const char32_t c = next_code_point(text, i);
    append_utf8(out, c == 0x130 ? U'i' : lower(c));
    if (c == 0x130) append_utf8(out, 0x307);  // the only letter whose lower case is two code points
  }
  return out;
}

bool is_white_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_numeric(char32_t c) {
  return category_between(c, UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO) || contains(unicode_tables::kNumeric, c);
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  if (c == 0x166D || c == 0x111C9) return true;  // punctuation then, reclassified since
  return category_between(c, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO) &&
         !contains(unicode_tables::kNotPunctuation, c);
}

bool is_combining_mark(char32_t c) {
  if (c == 0x1CF2 || c == 0x1CF3) return true;  // marks then, letters since
  return category_between(c, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME) && !contains(unicode_tables::kNotMark, c);
}

bool is_nonspacing_mark(char32_t c) {
  if (c == 0x1734) return true;  // a spacing mark since
  return category_between(c, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MN) &&
         !contains(unicode_tables::kNotNonspacingMark, c);
}

bool is_control(char32_t c) {
  if (c == 0x890 || c == 0x891 || c == 0x8E2 || c == 0x110CD || (c >= 0x13430 && c <= 0x1343F))
    return false;  // younger
  return category_between(c, UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CF) ||
         category_between(c, UTF8PROC_CATEGORY_CO, UTF8PROC_CATEGORY_CO);
}

bool is_word(char32_t c) {
  // Oniguruma counts superscript digits and fractions of Latin-1 as word characters; the reference does not.
  if (c == 0xB2 || c == 0xB3 || c == 0xB9 || (c >= 0xBC && c <= 0xBE)) return false;
  return ONIGENC_IS_CODE_WORD(ONIG_ENCODING_UTF8, c) || contains(unicode_tables::kWord, c);
}

size_t leading_white_space(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    size_t next = i;
    if (!is_white_space(next_code_point(text, next))) break;
    i = next;
  }
  return i;
}

size_t trailing_white_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while ((static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
    size_t i = begin;
    if (!is_white_space(next_code_point(text, i))) break;
    end = begin;
  }
  return text.size() - end;
}

}  // namespace kvcal
