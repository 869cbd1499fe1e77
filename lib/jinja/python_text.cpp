#include "jinja/python_text.h"

#include <algorithm>

#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace kvcal::python {
namespace {

template <class In>
std::string_view strip_while(std::string_view text, Side side, In&& in) {
  if (side != Side::Right)
    while (!text.empty()) {
      size_t i = 0;
      if (!in(next_code_point(text, i))) break;
      text.remove_prefix(i);
    }
  if (side != Side::Left)
    while (!text.empty()) {
      size_t begin = text.size() - 1;
      while (begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
      size_t i = begin;
      if (!in(next_code_point(text, i))) break;
      text.remove_suffix(text.size() - begin);
    }
  return text;
}

bool is_line_end(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace

bool is_space(char32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

std::string_view strip(std::string_view text, Side side) { return strip_while(text, side, is_space); }

std::string_view strip(std::string_view text, Side side, std::string_view characters) {
  const std::u32string set = to_code_points(characters);
  return strip_while(text, side, [&](char32_t c) { return set.find(c) != std::u32string::npos; });
}

std::vector<std::string> split(std::string_view text, std::string_view separator, int64_t limit) {
  std::vector<std::string> out;
  size_t from = 0;
  while (limit < 0 || static_cast<int64_t>(out.size()) < limit) {
    const size_t at = text.find(separator, from);
    if (at == std::string_view::npos) break;
    out.emplace_back(text.substr(from, at - from));
    from = at + separator.size();
  }
  out.emplace_back(text.substr(from));
  return out;
}

std::vector<std::string> rsplit(std::string_view text, std::string_view separator, int64_t limit) {
  std::vector<std::string> out;
  size_t end = text.size();
  while (limit < 0 || static_cast<int64_t>(out.size()) < limit) {
    if (end < separator.size()) break;
    const size_t at = text.rfind(separator, end - separator.size());
    if (at == std::string_view::npos) break;
    out.emplace_back(text.substr(at + separator.size(), end - at - separator.size()));
    end = at;
  }
  out.emplace_back(text.substr(0, end));
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::string> split_space(std::string_view text, int64_t limit) {
  std::vector<std::string> out;
  text = strip(text, Side::Left);
  while (!text.empty()) {
    if (limit >= 0 && static_cast<int64_t>(out.size()) >= limit) {
      out.emplace_back(text);  // the rest keeps its trailing white space
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      size_t next = end;
      if (is_space(next_code_point(text, next))) break;
      end = next;
    }
    out.emplace_back(text.substr(0, end));
    text = strip(text.substr(end), Side::Left);
  }
  return out;
}

std::vector<std::string> rsplit_space(std::string_view text, int64_t limit) {
  if (limit < 0) return split_space(text, -1);
  std::vector<std::string> out;
  text = strip(text, Side::Right);
  while (!text.empty()) {
    if (static_cast<int64_t>(out.size()) >= limit) {
      out.emplace_back(text);
      break;
    }
    const std::string_view rest = strip_while(text, Side::Right, [](char32_t c) { return !is_space(c); });
    out.emplace_back(text.substr(rest.size()));
    text = strip(rest, Side::Right);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::string> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string> out;
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t at = i;
    const char32_t c = next_code_point(text, i);
    if (!is_line_end(c)) continue;
    if (c == '\r' && i < text.size() && text[i] == '\n') ++i;
    out.emplace_back(text.substr(begin, (keep_ends ? i : at) - begin));
    begin = i;
  }
  if (begin < text.size()) out.emplace_back(text.substr(begin));
  return out;
}

std::string replace(std::string_view text, std::string_view from, std::string_view to, int64_t limit) {
  std::string out;
  int64_t done = 0;
  const auto more = [&] { return limit < 0 || done < limit; };
  size_t at = 0;
  if (from.empty()) {
    while (more()) {
      out += to;
      ++done;
      if (at >= text.size()) return out;
      const size_t n = utf8_length(text[at]);
      out += text.substr(at, n);
      at += n;
    }
    return out += text.substr(at);
  }
  while (more()) {
    const size_t found = text.find(from, at);
    if (found == std::string_view::npos) break;
    out += text.substr(at, found - at);
    out += to;
    at = found + from.size();
    ++done;
  }
  return out += text.substr(at);
}

size_t length(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

int64_t count(std::string_view text, std::string_view part) {
  if (part.empty()) return static_cast<int64_t>(length(text)) + 1;
  int64_t n = 0;
  for (size_t i = text.find(part); i != std::string_view::npos; i = text.find(part, i + part.size())) ++n;
  return n;
}

}  // namespace kvcal::python
