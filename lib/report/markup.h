// Pieces of HTML and SVG that are well-formed whatever goes into them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace kvcal {

/// Text for an element or a quoted attribute: & < > " ' become entities; control characters and bytes that are no UTF-8
/// become U+FFFD. Model names and prompt ids are written by strangers: they come into a page through here only.
std::string escaped(std::string_view text);

/// Four significant digits: "0.000679", "1.869e+04".
std::string figure_text(double x);

/// A coordinate of a drawing: at most one decimal, "12.5", "7", "-3".
std::string coordinate(double x);

/// What may be wider than the page, in a box that scrolls sideways by itself; its edges show where there is more.
std::string wide(const std::string& body);

/// What opens at a click: a line of text that says what, and the body under it.
std::string fold(std::string_view summary, const std::string& body);

/// A table with a caption and headers that assistive technology can follow, in a box that scrolls sideways by itself.
class HtmlTable {
 public:
  struct Column {
    std::string title;
    bool numeric = false;
  };
  HtmlTable(std::string_view caption, std::vector<Column> columns);

  /// Cells are markup: text of others has been escaped. The first one is the row's header.
  void add_row(const std::vector<std::string>& cells);

  bool empty() const { return rows_.empty(); }
  std::string html() const { return wide("<table>" + head_ + "<tbody>" + rows_ + "</tbody></table>"); }

 private:
  std::vector<Column> columns_;
  std::string head_, rows_;
};

/// <section id> with its heading, in the page's table of contents by that id.
std::string section(std::string_view id, std::string_view title, const std::string& body);

/// A drawing of the given size that shrinks with the page; `alternative` says in words what it shows.
std::string drawing(double width, double height, std::string_view alternative, const std::string& body);

/// Where an axis from 0 ends that holds `largest`: 1, 2, 3, 4, 5, 6 or 8 times a power of ten, whose half is short,
/// too; 1 for what is not above zero.
double round_end(double largest);

/// Parts of a drawing; `style` names a class of the style sheet.
std::string svg_rect(std::string_view style, double x, double y, double width, double height);
std::string svg_line(std::string_view style, double x1, double y1, double x2, double y2);
std::string svg_text(std::string_view style, double x, double y, std::string_view text);

}  // namespace kvcal
