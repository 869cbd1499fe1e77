#include "table.h"

#include <utf8proc.h>

#include <algorithm>
#include <cassert>
#include <utility>

namespace kvcal {
namespace {

// Calls fn(bytes of one character, its columns) along the text until fn returns false. A byte that is no UTF-8 counts
// as one column: something will be shown for it.
template <class Fn>
void each_character(std::string_view text, Fn&& fn) {
  while (!text.empty()) {
    utf8proc_int32_t code = -1;
    const utf8proc_ssize_t n = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                                static_cast<utf8proc_ssize_t>(text.size()), &code);
    const size_t length = n > 0 ? static_cast<size_t>(n) : 1;
    if (!fn(text.substr(0, length), n > 0 ? utf8proc_charwidth(code) : 1)) return;
    text.remove_prefix(length);
  }
}

}  // namespace

int display_width(std::string_view text) {
  int width = 0;
  each_character(text, [&](std::string_view, int columns) {
    width += columns;
    return true;
  });
  return width;
}

std::string cut_to_width(std::string_view text, int width) {
  if (display_width(text) <= width) return std::string(text);
  std::string out;
  int used = 1;  // the ellipsis
  each_character(text, [&](std::string_view bytes, int columns) {
    used += columns;
    if (used > width) return false;
    out += bytes;
    return true;
  });
  return width > 0 ? out + "…" : "";
}

void Table::add_row(std::vector<std::string> cells) {
  assert(cells.size() == columns_.size());
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

Lines Table::text() const {
  std::vector<int> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    int width = display_width(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, display_width(row[c]));
    widths.push_back(width);
  }
  Lines out;
  const auto put_line = [&](auto&& cell_of) {
    std::string line;
    for (size_t c = 0; c < columns_.size(); ++c) {
      const std::string& cell = cell_of(c);
      const std::string padding(static_cast<size_t>(widths[c] - display_width(cell)), ' ');
      if (c > 0) line += "  ";
      line += columns_[c].align == Align::Right ? padding + cell : cell + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out.add(line);
  };
  put_line([&](size_t c) -> const std::string& { return columns_[c].title; });
  for (const auto& row : rows_) put_line([&](size_t c) -> const std::string& { return row[c]; });
  return out;
}

}  // namespace kvcal
