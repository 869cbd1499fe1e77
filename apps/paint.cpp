#include "paint.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "table.h"

namespace kvcal {
namespace {

enum class When : uint8_t { Auto, Always, Never };
When g_when = When::Auto;

constexpr std::string_view kRed = "\x1b[1;31m", kYellow = "\x1b[33m", kCyan = "\x1b[36m", kPlain = "\x1b[0m";

struct Painted {
  std::string_view word, color;
};
constexpr std::array kAnswers = {Painted{"keep16", kRed}, Painted{"needed", kCyan}};
constexpr std::array kMessages = {Painted{"kvcal: error:", kRed}, Painted{"kvcal: warning:", kYellow}};

std::string in_color(const Painted& p) { return std::string(p.color) + std::string(p.word) + std::string(kPlain); }

/// Whether a word at `at` stands alone: "fine:" begins the line, or two spaces, or its begin and end, are around it.
bool stands_alone(std::string_view line, size_t at, size_t length) {
  const std::string_view rest = line.substr(at + length);
  if (at == 0) return rest.starts_with(":");
  return line.substr(0, at).ends_with("  ") && (rest.empty() || rest.starts_with("  "));
}

std::string painted_line(std::string_view line) {
  std::string out;
  for (size_t at = 0; at < line.size();) {
    const Painted* found = nullptr;
    for (const Painted& p : kAnswers)
      if (line.substr(at).starts_with(p.word) && stands_alone(line, at, p.word.size())) found = &p;
    out += found ? in_color(*found) : std::string(1, line[at]);
    at += found ? found->word.size() : 1;
  }
  return out;
}

/// A column-aligned row has two spaces between words; a sentence has one.
bool is_sentence(std::string_view line) { return !line.starts_with(' ') && line.find("  ") == line.npos; }

std::string wrapped(std::string_view line, int width) {
  std::string out, indent;
  while (display_width(line) + static_cast<int>(indent.size()) > width) {
    const size_t room = static_cast<size_t>(width) - indent.size();
    size_t end = line.find(' '), next = end;
    for (; next != line.npos && display_width(line.substr(0, next)) <= static_cast<int>(room);
         next = line.find(' ', next + 1))
      end = next;
    if (end == line.npos) break;
    out += indent + std::string(line.substr(0, end)) + "\n";
    line.remove_prefix(end + 1);
    indent = "  ";
  }
  return out + indent + std::string(line);
}

template <class Change>
std::string line_by_line(std::string_view text, Change change) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    out += change(text.substr(0, end)) + "\n";
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

void choose_color(std::string_view when) {
  if (when == "auto")
    g_when = When::Auto;
  else if (when == "always")
    g_when = When::Always;
  else if (when == "never")
    g_when = When::Never;
  else
    fail_unknown("value of --color", when, std::array<std::string, 3>{"auto", "always", "never"});
}

bool has_color(int descriptor) {
  if (g_when != When::Auto) return g_when == When::Always;
  const char* const refused = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  return isatty(descriptor) == 1 && (refused == nullptr || *refused == '\0') && terminal != nullptr &&
         std::string_view(terminal) != "dumb";
}

std::string painted_answers(std::string_view lines) { return line_by_line(lines, painted_line); }

std::string painted_messages(std::string_view lines) {
  return line_by_line(lines, [](std::string_view line) {
    for (const Painted& p : kMessages)
      if (line.starts_with(p.word))
        return "kvcal: " + in_color({p.word.substr(7), p.color}) + std::string(line.substr(p.word.size()));
    return std::string(line);
  });
}

std::string wrapped_sentences(std::string_view lines, int width) {
  return line_by_line(
      lines, [&](std::string_view line) { return is_sentence(line) ? wrapped(line, width) : std::string(line); });
}

}  // namespace kvcal
