// The tree as text: which files there are, and source code without its comments and strings.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace kvcal::rules {

struct SourceFile {
  std::string path;  // from the top of the tree, with slashes: "lib/base/error.h"
  std::string text;
};

/// All text files of the tree's folders and of its top level, sorted by path; binary files are left out.
std::vector<SourceFile> read_tree(const std::filesystem::path& top);

/// The code with comments and the insides of literals blanked; line numbers stay.
std::string code_only(std::string_view text);

struct Include {
  int line = 0;
  std::string name;   // as written between the delimiters
  bool ours = false;  // in quotes
};
std::vector<Include> includes_of(std::string_view text);

std::vector<std::string> lines_of(std::string_view text);

}  // namespace kvcal::rules
