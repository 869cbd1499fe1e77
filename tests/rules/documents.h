// Rules of the Markdown documents.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rules/rules.h"

namespace kvcal::rules {

/// README.md has at most 1,500 words, counted as wc does.
Findings readme_is_short(const std::vector<SourceFile>& tree);

/// Every relative link of a Markdown file leads to a file or folder of the tree, and to a heading of it where it names
/// one. Links in code do not count.
Findings links_lead_somewhere(const std::vector<SourceFile>& tree);

/// README.md or another document of docs/ links every document of docs/.
Findings documents_are_linked(const std::vector<SourceFile>& tree);

/// Until a release is on PyPI, nothing that users read has an installer take kvcal by its name, under which anybody may
/// publish there: wheels are named by path.
Findings installers_are_given_files(const std::vector<SourceFile>& tree);

/// The anchors that GitHub gives to the headings of a document, in their order.
std::vector<std::string> anchors_of(std::string_view markdown);

}  // namespace kvcal::rules
