// What Python's str says about characters, and its full case mappings.

#include <oniguruma.h>
#include <utf8proc.h>

#include <algorithm>

#include "jinja/python_case_tables.h"
#include "jinja/python_text.h"
#include "unicode/utf8.h"

namespace kvcal::python {
namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }
char32_t simple_lower(char32_t c) { return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))); }
char32_t simple_title(char32_t c) { return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))); }

// The upper case of letters for which it is more than one code point; empty for all others.
std::u32string long_upper(char32_t c) {
  constexpr char32_t kIota = 0x399;
  if (c >= 0x1F80 && c <= 0x1FAF) {
    constexpr char32_t kRows[] = {0x1F08, 0x1F28, 0x1F68};
    return {kRows[(c - 0x1F80) >> 4] + (c & 7), kIota};
  }
  const auto it = std::lower_bound(std::begin(case_tables::kLongUpper), std::end(case_tables::kLongUpper), c,
                                   [](const auto& entry, char32_t x) { return entry.letter < x; });
  return it != std::end(case_tables::kLongUpper) && it->letter == c ? std::u32string(it->upper) : std::u32string();
}

void append_upper(std::u32string& out, char32_t c) {
  if (const std::u32string s = long_upper(c); !s.empty())
    out += s;
  else
    out += static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}

// Of the long mappings the first letter stays large, but Greek letters with an iota below have their own large forms.
void append_title(std::u32string& out, char32_t c) {
  const std::u32string s = long_upper(c);
  const bool greek = c >= 0x1F80 && c <= 0x1FFC;
  if (s.empty() || category(c) == UTF8PROC_CATEGORY_LT || (greek && simple_title(c) != c)) {
    out += simple_title(c);
  } else if (c == 0x149) {  // an apostrophe, then the letter
    out += s;
  } else {
    out += s[0];
    for (const char32_t x : s.substr(1)) out += x == 0x399 ? char32_t{0x345} : simple_lower(x);
  }
}

bool is_case_ignorable(char32_t c) {
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_MN || k == UTF8PROC_CATEGORY_ME || k == UTF8PROC_CATEGORY_CF ||
         k == UTF8PROC_CATEGORY_LM || k == UTF8PROC_CATEGORY_SK || c == '\'' || c == '.' || c == ':' || c == 0xB7 ||
         c == 0x2019;
}

// A sigma at the end of a word has its own small form.
bool is_final_sigma(std::u32string_view s, size_t i) {
  size_t before = i;
  while (before > 0 && is_case_ignorable(s[before - 1])) --before;
  if (before == 0 || !is_cased(s[before - 1])) return false;
  size_t after = i + 1;
  while (after < s.size() && is_case_ignorable(s[after])) ++after;
  return after == s.size() || !is_cased(s[after]);
}

void append_lower(std::u32string& out, std::u32string_view s, size_t i) {
  if (s[i] == 0x3A3)
    out += is_final_sigma(s, i) ? char32_t{0x3C2} : char32_t{0x3C3};
  else if (s[i] == 0x130)
    out += U"i\u0307";
  else
    out += simple_lower(s[i]);
}

}  // namespace

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  const auto k = category(c);
  return k != UTF8PROC_CATEGORY_CN && k < UTF8PROC_CATEGORY_ZS;
}

bool is_upper(char32_t c) { return ONIGENC_IS_CODE_UPPER(ONIG_ENCODING_UTF8, c); }
bool is_lower(char32_t c) { return ONIGENC_IS_CODE_LOWER(ONIG_ENCODING_UTF8, c); }
bool is_cased(char32_t c) { return is_upper(c) || is_lower(c) || category(c) == UTF8PROC_CATEGORY_LT; }
bool is_alpha(char32_t c) {
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}
bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
int decimal_value(char32_t c) {
  // Decimal digits come in runs from zero to nine, some of them several in a row.
  int n = 0;
  while (is_decimal(c - 1 - static_cast<char32_t>(n))) ++n;
  return n % 10;
}
bool is_digit(char32_t c) {
  return is_decimal(c) || std::any_of(std::begin(case_tables::kOtherDigits), std::end(case_tables::kOtherDigits),
                                      [c](const auto& r) { return c >= r.first && c <= r.last; });
}

namespace {

// A text as code points and what is made of them, which can be three for one.
template <class Change>
void change(PaidText& out, std::string_view text, Change&& change) {
  out.budget().steps(text.size(), jinja::kCharacterSteps);
  const jinja::Held held(&out.budget(), 12 * text.size());
  const std::u32string s = to_code_points(text);
  std::u32string changed;
  change(s, changed);
  out += from_code_points(changed);
}

}  // namespace

void upper(PaidText& out, std::string_view text) {
  change(out, text, [](const std::u32string& s, std::u32string& to) {
    for (const char32_t c : s) append_upper(to, c);
  });
}

void lower(PaidText& out, std::string_view text) {
  change(out, text, [](const std::u32string& s, std::u32string& to) {
    for (size_t i = 0; i < s.size(); ++i) append_lower(to, s, i);
  });
}

void casefold(PaidText& out, std::string_view text) {
  change(out, text, [](const std::u32string& s, std::u32string& to) {
    for (const char32_t c : s) {
      utf8proc_int32_t folded[4];  // three at most
      int unused = 0;
      const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), folded, 4, UTF8PROC_CASEFOLD, &unused);
      for (utf8proc_ssize_t i = 0; i < n; ++i) to += static_cast<char32_t>(folded[i]);
    }
  });
}

void capitalize(PaidText& out, std::string_view text) {
  change(out, text, [](const std::u32string& s, std::u32string& to) {
    for (size_t i = 0; i < s.size(); ++i) {
      if (i == 0)
        append_title(to, s[i]);
      else
        append_lower(to, s, i);
    }
  });
}

void title(PaidText& out, std::string_view text) {
  change(out, text, [](const std::u32string& s, std::u32string& to) {
    bool inside = false;
    for (size_t i = 0; i < s.size(); ++i) {
      if (inside)
        append_lower(to, s, i);
      else
        append_title(to, s[i]);
      inside = is_cased(s[i]);
    }
  });
}

}  // namespace kvcal::python
