// Whether a program wrote what a document shows.
#pragma once

#include <string>
#include <string_view>

namespace kvcal::documents {

/// Words are equal, spaces are free, numbers are within 10 % of each other (processors differ in the last digits). In
/// the pattern a line "..." stands for any lines, also none; "..." elsewhere stands for any text of a word.
bool shows(std::string_view pattern, std::string_view output);

}  // namespace kvcal::documents
