#include "doctor/chart_templates.h"

#include <algorithm>

namespace kvcal {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view without_end(std::string_view line) { return line.substr(0, line.find_last_not_of(kBlanks) + 1); }

/// Whether a place is in a quoted text, which may go on over lines. A quote opens one only where a value begins.
class Quotes {
 public:
  bool are_open() const { return quote_ != '\0'; }

  /// From the start of a line.
  void read(std::string_view line) {
    char last = '\n';  // but for blanks
    for (size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      const bool is_blank = kBlanks.find(c) != kBlanks.npos;
      if (are_open()) {
        i += inside(line.substr(i));
      } else if ((c == '"' || c == '\'') && std::string_view("\n:-[{,").find(last) != std::string_view::npos) {
        quote_ = c;
      } else if (c == '#' && (i == 0 || kBlanks.find(line[i - 1]) != kBlanks.npos)) {
        return;
      }
      if (!is_blank) last = c;
    }
  }

 private:
  /// How many characters belong to the first one.
  size_t inside(std::string_view rest) {
    const bool is_pair = quote_ == '"' ? rest.front() == '\\' : rest.starts_with("''");
    if (!is_pair && rest.front() == quote_) quote_ = '\0';
    return is_pair ? 1 : 0;
  }

  char quote_ = '\0';
};

bool is_template_alone(std::string_view line) {
  const size_t begin = line.find("{{");
  return begin != line.npos && line.find_first_not_of(kBlanks) == begin && without_end(line).ends_with("}}");
}

/// Where the line's value begins with a template; npos where none does.
size_t templated_value(std::string_view line) {
  const size_t begin = line.find("{{");
  const std::string_view before = line.substr(0, begin), key = without_end(before);
  const bool is_value = key.ends_with(":") || key.find_first_not_of(" \t-") == key.npos;
  return begin != line.npos && !key.empty() && key.size() < before.size() && is_value ? begin : line.npos;
}

std::string with_quoted_value(std::string_view line, size_t begin) {
  std::string out = std::string(line.substr(0, begin)) + "'";
  const std::string_view value = line.substr(begin);
  for (const char c : without_end(value.substr(0, value.find(" #")))) out += c == '\'' ? "''" : std::string(1, c);
  return out + "'";
}

/// The indentation of a line behind which a block of text begins ("a: |-"); npos where none does.
size_t block_of(std::string_view line) {
  const std::string_view plain = without_end(line.substr(0, line.find(" #")));
  const size_t sign = plain.find_last_not_of("+-0123456789");
  if (sign == plain.npos || sign == 0 || plain[sign - 1] != ' ' || (plain[sign] != '|' && plain[sign] != '>'))
    return plain.npos;
  const size_t key = plain.find_first_not_of(" -");
  return key < sign ? key : plain.find_first_not_of(' ');
}

}  // namespace

std::string without_templates(std::string_view text) {
  std::string out;
  Quotes quotes;
  size_t block = text.npos;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const bool is_alone = !quotes.are_open() && is_template_alone(line);
    const size_t indentation = line.find_first_not_of(kBlanks);
    if (block != text.npos && !is_alone && indentation != line.npos && indentation <= block) block = text.npos;
    Quotes before = quotes;
    const size_t begin = templated_value(line);
    before.read(line.substr(0, begin));
    if (block != text.npos) {
      if (!is_alone) out += line;
    } else if (!is_alone && begin != line.npos && !before.are_open()) {
      out += with_quoted_value(line, begin);
    } else if (!is_alone) {
      out += line;
      quotes.read(line);
      if (!quotes.are_open()) block = block_of(line);
    }
    out += '\n';
  }
  return out;
}

}  // namespace kvcal
