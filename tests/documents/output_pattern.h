// Whether a program wrote what a document shows.
#pragma once

#include <string>
#include <string_view>

namespace kvcal::documents {

/// Words are equal, spaces are free, and so is where a sentence goes on in the next line, behind two spaces. Numbers
/// are within 20 % of each other, those below 0.001 within 60 %: processors differ in the last bits. In the pattern a
/// line "..." stands for any lines, also none; "..." elsewhere stands for any text of a word.
bool shows(std::string_view pattern, std::string_view output);

}  // namespace kvcal::documents
