// Files that a page carries, so that whoever has the page alone can save and check them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvcal {

struct CarriedFile {
  std::string name;  // letters, digits, '.' and '-': at most 64
  std::string text;
};

/// A link that saves the file from a browser, without network or script.
std::string link_to(const CarriedFile& file);

/// What the links of a page hold, in its order. Throws Error for a link that is broken or has another name.
std::vector<CarriedFile> carried_files(std::string_view page);

}  // namespace kvcal
