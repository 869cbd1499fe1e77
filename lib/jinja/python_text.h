// Python's str methods on UTF-8, as templates call them. Positions and lengths count code points.
#pragma once

#include <cstdint>
#include <string_view>

#include "jinja/value.h"

namespace kvcal::python {

using jinja::Budget;
using jinja::List;
using jinja::PaidText;

bool is_space(char32_t c);      // str.isspace: White_Space and U+001C to U+001F
bool is_printable(char32_t c);  // what repr leaves as it is
bool is_cased(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
int decimal_value(char32_t c);  // of a decimal digit: 0 to 9
bool is_digit(char32_t c);      // decimal, superscript, circled ...
bool is_upper(char32_t c);
bool is_lower(char32_t c);

// Each appends what it makes of `text`.
void upper(PaidText& out, std::string_view text);
void lower(PaidText& out, std::string_view text);
void casefold(PaidText& out, std::string_view text);
void capitalize(PaidText& out, std::string_view text);
void title(PaidText& out, std::string_view text);

enum class Side { Left, Right, Both };
/// Strips white space, or with `characters` any of those.
std::string_view strip(Budget& budget, std::string_view text, Side side);
/// Of a template's own text, which nobody renders yet.
std::string_view strip_source(std::string_view text, Side side);
std::string_view strip(Budget& budget, std::string_view text, Side side, std::string_view characters);

/// str.split and str.rsplit; `limit` < 0 is no limit. The separator must not be empty.
List split(Budget& budget, std::string_view text, std::string_view separator, int64_t limit);
List rsplit(Budget& budget, std::string_view text, std::string_view separator, int64_t limit);
/// Splits at runs of white space; empty parts do not occur.
List split_space(Budget& budget, std::string_view text, int64_t limit);
List rsplit_space(Budget& budget, std::string_view text, int64_t limit);
List split_lines(Budget& budget, std::string_view text, bool keep_ends);

/// Appends str.replace; `limit` < 0 is no limit. An empty `from` matches at every boundary.
void replace(PaidText& out, std::string_view text, std::string_view from, std::string_view to, int64_t limit);

/// Where `part` first begins at or behind `from`, or npos; in linear time.
size_t find(Budget& budget, std::string_view text, std::string_view part, size_t from = 0);
/// Where it last begins.
size_t rfind(Budget& budget, std::string_view text, std::string_view part);
size_t length(Budget& budget, std::string_view text);
int64_t count(Budget& budget, std::string_view text, std::string_view part);

}  // namespace kvcal::python
