// Python's str methods on UTF-8, as templates call them. Positions and lengths count code points.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvcal::python {

bool is_space(char32_t c);      // str.isspace: White_Space and U+001C to U+001F
bool is_printable(char32_t c);  // what repr leaves as it is
bool is_cased(char32_t c);
bool is_alpha(char32_t c);
bool is_decimal(char32_t c);
int decimal_value(char32_t c);  // of a decimal digit: 0 to 9
bool is_digit(char32_t c);      // decimal, superscript, circled ...
bool is_upper(char32_t c);
bool is_lower(char32_t c);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string casefold(std::string_view text);
std::string capitalize(std::string_view text);
std::string title(std::string_view text);

enum class Side { Left, Right, Both };
/// Strips white space, or with `characters` any of those.
std::string_view strip(std::string_view text, Side side);
std::string_view strip(std::string_view text, Side side, std::string_view characters);

/// str.split and str.rsplit; `limit` < 0 is no limit. The separator must not be empty.
std::vector<std::string> split(std::string_view text, std::string_view separator, int64_t limit);
std::vector<std::string> rsplit(std::string_view text, std::string_view separator, int64_t limit);
/// Splits at runs of white space; empty parts do not occur.
std::vector<std::string> split_space(std::string_view text, int64_t limit);
std::vector<std::string> rsplit_space(std::string_view text, int64_t limit);
std::vector<std::string> split_lines(std::string_view text, bool keep_ends);

/// str.replace; `limit` < 0 is no limit. An empty `from` matches at every boundary.
std::string replace(std::string_view text, std::string_view from, std::string_view to, int64_t limit);

size_t length(std::string_view text);
int64_t count(std::string_view text, std::string_view part);

}  // namespace kvcal::python
