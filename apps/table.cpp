#include "table.h"

#include <utf8proc.h>

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "terminal.h"

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

constexpr int kLeastText = 12;  // columns that text keeps when it is cut

int width_of(const std::vector<size_t>& columns, const std::vector<int>& widths) {
  int width = -2;
  for (const size_t c : columns) width += 2 + widths[c];
  return width;
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

std::vector<int> Table::natural_widths() const {
  std::vector<int> widths;
  for (size_t c = 0; c < columns_.size(); ++c)
    widths.push_back(std::max(display_width(columns_[c].title), widest_cell(c)));
  return widths;
}

int Table::widest_cell(size_t c) const {
  int widest = 0;
  for (const auto& row : rows_) widest = std::max(widest, display_width(row[c]));
  return widest;
}

Table::Columns Table::kept(const std::vector<int>& widths, int width) const {
  Columns kept(columns_.size());
  std::iota(kept.begin(), kept.end(), size_t{0});
  while (width_of(kept, widths) > width) {
    const auto least = std::ranges::max_element(kept.rbegin(), kept.rend(), {},  // the last of equals
                                                [&](size_t c) { return columns_[c].spare; });
    if (columns_[*least].spare == 0) break;
    kept.erase(std::next(least).base());
  }
  return kept;
}

void Table::add_block(const Columns& columns, const std::vector<int>& widths, Lines& out) const {
  const auto put_line = [&](auto&& cell_of) {
    std::string line;
    for (const size_t c : columns) {
      const std::string cell = cut_to_width(cell_of(c), widths[c]);
      const std::string padding(static_cast<size_t>(widths[c] - display_width(cell)), ' ');
      if (c != columns.front()) line += "  ";
      line += columns_[c].align == Align::Right ? padding + cell : cell + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out.add(line);
  };
  put_line([&](size_t c) -> const std::string& { return columns_[c].title; });
  for (const auto& row : rows_) put_line([&](size_t c) -> const std::string& { return row[c]; });
}

Lines Table::text(int width) const {
  std::vector<int> widths = natural_widths();
  const Columns columns = kept(widths, width);
  for (auto c = columns.rbegin(); c != columns.rend(); ++c)
    if (const int too_much = width_of(columns, widths) - width; too_much > 0 && columns_[*c].align == Align::Left)
      widths[*c] = std::max(std::min(widths[*c], kLeastText), widths[*c] - too_much);
  Columns keys(n_keys_);
  std::iota(keys.begin(), keys.end(), size_t{0});
  const int beside_keys = width - width_of(keys, widths) - 2;  // the rest of a title is cut
  for (size_t c = n_keys_; c < widths.size(); ++c)
    widths[c] = std::min(widths[c], std::max(widest_cell(c), beside_keys));
  Lines out;
  for (auto next = columns.begin(); next != columns.end();) {
    Columns block;
    if (next != columns.begin()) {
      block = keys;
      out.add("");
    }
    do block.push_back(*next++);
    while (next != columns.end() && width_of(block, widths) + 2 + widths[*next] <= width);
    add_block(block, widths, out);
  }
  return out;
}

Lines Table::text() const { return text(output_columns()); }

}  // namespace kvcal
