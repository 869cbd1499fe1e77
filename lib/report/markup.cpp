#include "report/markup.h"

#include <cmath>
#include <cstdint>

#include "base/number_text.h"
#include "base/portable_math.h"

namespace kvcal {
namespace {

// Bytes of the UTF-8 character at the beginning of text; 0 when there is none. Overlong forms, surrogates and what is
// beyond U+10FFFF are none.
size_t character_bytes(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const size_t n = first >= 0xF5 ? 0 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
  for (size_t i = 1; i < n; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  const unsigned second = byte(1);
  const bool wrong = (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
                     (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return wrong ? 0 : n;
}

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// What a character is written as where it cannot stand for itself; "" where it can.
std::string_view entity_of(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    default:
      return static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? kReplacement : "";
  }
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t n = character_bytes(text);
    const std::string_view entity = n == 1 ? entity_of(text[0]) : n == 0 ? kReplacement : "";
    out += entity.empty() ? text.substr(0, n) : entity;
    text.remove_prefix(n == 0 ? 1 : n);
  }
  return out;
}

std::string figure_text(double x) { return formatted("%.4g", x); }

std::string coordinate(double x) {
  std::string text = formatted("%.1f", x);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::string wide(const std::string& body) { return "<div class=\"scroll\" tabindex=\"0\">" + body + "</div>\n"; }

std::string fold(std::string_view summary, const std::string& body) {
  return "<details><summary>" + escaped(summary) + "</summary>\n" + body + "</details>\n";
}

HtmlTable::HtmlTable(std::string_view caption, std::vector<Column> columns) : columns_(std::move(columns)) {
  head_ = "<caption>" + escaped(caption) + "</caption><thead><tr>";
  for (const Column& c : columns_)
    head_ += std::string("<th scope=\"col\"") + (c.numeric ? " class=\"n\">" : ">") + escaped(c.title) + "</th>";
  head_ += "</tr></thead>";
}

void HtmlTable::add_row(const std::vector<std::string>& cells) {
  rows_ += "<tr>";
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string style = columns_[i].numeric ? " class=\"n\">" : ">";
    rows_ += i == 0 ? "<th scope=\"row\"" + style + cells[i] + "</th>" : "<td" + style + cells[i] + "</td>";
  }
  rows_ += "</tr>\n";
}

std::string section(std::string_view id, std::string_view title, const std::string& body) {
  return "<section id=\"" + escaped(id) + "\">\n<h2>" + escaped(title) + "</h2>\n" + body + "</section>\n";
}

std::string drawing(double width, double height, std::string_view alternative, const std::string& body) {
  const std::string w = coordinate(width), h = coordinate(height);
  return "<svg role=\"img\" width=\"" + w + "\" height=\"" + h + "\" viewBox=\"0 0 " + w + " " + h +
         "\" aria-label=\"" + escaped(alternative) + "\">" + body + "</svg>\n";
}

double round_end(double largest) {
  if (!(largest > 0)) return 1;
  constexpr double kAlmost = 1e-9;  // a round number is its own end
  const double decade = portable_pow(10, std::floor(portable_log(largest) / portable_log(10) + kAlmost));
  for (const double step : {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0})
    if (largest <= step * decade * (1 + kAlmost)) return step * decade;
  return 10 * decade;
}

std::string svg_rect(std::string_view style, double x, double y, double width, double height) {
  return "<rect class=\"" + std::string(style) + "\" x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\" width=\"" +
         coordinate(width) + "\" height=\"" + coordinate(height) + "\"/>";
}

std::string svg_line(std::string_view style, double x1, double y1, double x2, double y2) {
  return "<line class=\"" + std::string(style) + "\" x1=\"" + coordinate(x1) + "\" y1=\"" + coordinate(y1) +
         "\" x2=\"" + coordinate(x2) + "\" y2=\"" + coordinate(y2) + "\"/>";
}

std::string svg_text(std::string_view style, double x, double y, std::string_view text) {
  return "<text class=\"" + std::string(style) + "\" x=\"" + coordinate(x) + "\" y=\"" + coordinate(y) + "\">" +
         escaped(text) + "</text>";
}

}  // namespace kvcal
