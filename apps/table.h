// Aligned columns for readable output.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/lines.h"

namespace kvcal {

/// Columns that printable UTF-8 text takes on a terminal: combining marks none, wide characters two.
int display_width(std::string_view text);

/// The text truncated to at most `width` columns; "…" replaces the rest.
std::string cut_to_width(std::string_view text, int width);

class Table {
 public:
  enum class Align { Left, Right };
  struct Column {
    std::string title;
    Align align = Align::Left;
    int spare = 0;  // 0: stays; of the others the largest goes first where the table is too wide
  };

  /// The first `n_keys` columns say what a row is of.
  explicit Table(std::vector<Column> columns, size_t n_keys = 1) : columns_(std::move(columns)), n_keys_(n_keys) {}

  /// One cell per column, made printable.
  void add_row(std::vector<std::string> cells);

  /// Title line and rows, two spaces between columns, none at line ends, and no line wider than `width` (at least 40).
  /// What is too wide loses columns that may be spared, then the ends of long text, and goes on in a second table with
  /// the keys again where that is not enough. Numbers are never cut.
  Lines text(int width) const;
  Lines text() const;  // for standard output

 private:
  using Columns = std::vector<size_t>;
  std::vector<int> natural_widths() const;
  int widest_cell(size_t c) const;
  Columns kept(const std::vector<int>& widths, int width) const;
  void add_block(const Columns& columns, const std::vector<int>& widths, Lines& out) const;

  std::vector<Column> columns_;
  size_t n_keys_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace kvcal
