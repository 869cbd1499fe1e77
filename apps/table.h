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
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell per column, made printable.
  void add_row(std::vector<std::string> cells);

  /// Title line and rows, two spaces between columns, none at line ends.
  Lines text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace kvcal
