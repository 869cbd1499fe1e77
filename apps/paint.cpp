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

/// What a line begins with that names a finding: "error S14 ...", "warning E15: ...".
constexpr std::array kSeverities = {Painted{"fatal", kRed}, Painted{"error", kRed}, Painted{"warning", kYellow}};
constexpr std::array kVerdicts = {Painted{"NOT valid", kRed}, Painted{"NOT within", kRed}};

std::string in_color(const Painted& p) { return std::string(p.color) + std::string(p.word) + std::string(kPlain); }

/// Whether a word at `at` stands alone: "fine:" begins the line, or two spaces, or its begin and end, are around it.
bool stands_alone(std::string_view line, size_t at, size_t length) {
  const std::string_view rest = line.substr(at + length);
  if (at == 0) return rest.starts_with(":");
  return line.substr(0, at).ends_with("  ") && (rest.empty() || rest.starts_with("  "));
}

bool is_capital(char c) { return 'A' <= c && c <= 'Z'; }

/// Of a line that begins with a finding.
const Painted* severity_of(std::string_view line) {
  for (const Painted& p : kSeverities) {
    const size_t id = p.word.size() + 1;
    if (line.starts_with(p.word) && line.size() > id && line[id - 1] == ' ' && is_capital(line[id])) return &p;
  }
  return nullptr;
}

const Painted* verdict_at(std::string_view line, size_t at) {
  for (const Painted& p : kVerdicts)
    if (line.substr(at).starts_with(p.word) &&
        (line.substr(0, at).ends_with(": ") || line.substr(0, at).ends_with("; ")))
      return &p;
  return nullptr;
}

std::string painted_line(std::string_view line) {
  std::string out;
  if (const Painted* severity = severity_of(line)) {
    out = in_color(*severity);
    line.remove_prefix(severity->word.size());
    return out + std::string(line);
  }
  for (size_t at = 0; at < line.size();) {
    const Painted* found = verdict_at(line, at);
    for (const Painted& p : kAnswers)
      if (line.substr(at).starts_with(p.word) && stands_alone(line, at, p.word.size())) found = &p;
    out += found ? in_color(*found) : std::string(1, line[at]);
    at += found ? found->word.size() : 1;
  }
  return out;
}

bool is_of_label(char c) {
  return c == ' ' || c == '(' || c == ')' || ('a' <= c && c <= 'z') || is_capital(c) || ('0' <= c && c <= '9');
}

/// Where the text begins that follows on a label: "fold:    why", "  fix: what". 0 without a label, as in a command.
size_t text_after_label(std::string_view line) {
  size_t colon = 0;
  while (colon < line.size() && is_of_label(line[colon])) ++colon;
  if (colon == line.size() || line[colon] != ':') return 0;
  return std::min(line.find_first_not_of(' ', colon + 1), line.size());
}

/// A column-aligned row has two spaces between words, a command begins with them; a sentence has one.
bool is_sentence(std::string_view line) {
  const std::string_view text = line.substr(text_after_label(line));
  return !text.starts_with(' ') && text.find("  ") == text.npos;
}

/// Further lines begin below the text of an aligned label that leaves room, else two columns further in.
std::string indent_of(std::string_view line, int width) {
  const size_t text = text_after_label(line);
  const bool is_aligned = text >= 2 && text <= static_cast<size_t>(width) / 2 && line.substr(text - 2, 2) == "  ";
  return std::string(is_aligned ? text : std::min(line.find_first_not_of(' '), line.size()) + 2, ' ');
}

std::string wrapped(std::string_view line, int width) {
  std::string out, indent;
  const std::string further = indent_of(line, width);
  while (display_width(line) + static_cast<int>(indent.size()) > width) {
    const size_t room = static_cast<size_t>(width) - indent.size();
    const size_t first = indent.empty() ? text_after_label(line) : 0;
    size_t end = line.find(' ', first), next = end;
    for (; next != line.npos && display_width(line.substr(0, next)) <= static_cast<int>(room);
         next = line.find(' ', next + 1))
      end = next;
    if (end == line.npos) break;
    out += indent + std::string(line.substr(0, end)) + "\n";
    line.remove_prefix(end + 1);
    indent = further;
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
