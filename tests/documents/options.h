// Options of the program, as documents name them.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace kvcal::documents {

/// Every "--option" in the text: of a help page, or in the code spans and code blocks of a Markdown document.
std::set<std::string> options_in(std::string_view text);
std::set<std::string> options_in_code(std::string_view markdown);

/// The verbs that the program's help lists.
std::set<std::string> verbs_in(std::string_view help);

}  // namespace kvcal::documents
