#include "terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "base/error.h"
#include "paint.h"

namespace kvcal {
namespace {

bool is_ready(int milliseconds) {
  pollfd error = {STDERR_FILENO, POLLOUT, 0};
  int n = 0;
  do n = poll(&error, 1, milliseconds);
  while (n < 0 && errno == EINTR && milliseconds < 0);
  return n > 0;
}

constexpr int kFewestColumns = 40, kUsualColumns = 80;

// 0: it says nothing.
int columns_of_environment() {
  const char* const text = std::getenv("COLUMNS");
  if (text == nullptr) return 0;
  int columns = 0;
  const char* const end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, columns);
  return error == std::errc() && rest == end ? columns : 0;
}

int columns_of_terminal(int descriptor) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int columns_of(int descriptor) {
  int columns = columns_of_environment();
  if (columns <= 0) columns = columns_of_terminal(descriptor);
  return columns <= 0 ? kUsualColumns : std::max(columns, kFewestColumns);
}

// Whoever sets COLUMNS wants lines of that width in a file or pipe, too; messages stay in one line there.
bool wraps(int descriptor) {
  return isatty(descriptor) == 1 || (descriptor == STDOUT_FILENO && columns_of_environment() > 0);
}

// For whoever reads it there.
std::string dressed(const Lines& lines, int descriptor) {
  std::string text = lines.text();
  if (wraps(descriptor)) text = wrapped_sentences(text, columns_of(descriptor));
  return has_color(descriptor) ? painted_answers(text) : text;
}

}  // namespace

int output_columns() { return columns_of(STDOUT_FILENO); }

void write_lines(const Lines& lines) { std::cout << lines.text(); }

void write_json(const Json& json, int indent) {
  write_json_text(json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n");
}

void write_json_text(std::string_view json) { std::cout << printable_json(json); }

void write_bytes(std::string_view file) { std::cout << file; }

void flush_output() {
  std::cout.flush();
  if (!std::cout) fail("cannot write to standard output; is the disk full, or the output closed?");
}

void say_lines(const Lines& lines) noexcept {
  std::string text = lines.text();
  if (wraps(STDERR_FILENO)) text = wrapped_sentences(text, columns_of(STDERR_FILENO));
  say_raw(has_color(STDERR_FILENO) ? painted_messages(text) : text);
}

void write_result(const Lines& lines) { std::cout << dressed(lines, STDOUT_FILENO); }

void say_result(const Lines& lines) { say_raw(dressed(lines, STDERR_FILENO)); }

void say_raw(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t n = write(STDERR_FILENO, text.data(), text.size());
    if (n > 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (n < 0 && errno == EAGAIN) {  // somebody has made the terminal or pipe that we share non-blocking
      if (!is_ready(-1)) return;
    } else if (n == 0 || errno != EINTR) {
      return;
    }
  }
}

void say_in_signal_handler(std::initializer_list<std::string_view> parts) noexcept {
  std::array<char, PIPE_BUF> text;
  size_t n = 0;
  for (const std::string_view part : parts)
    for (size_t i = 0; i < part.size() && n < text.size(); ++i) {
      const auto c = static_cast<unsigned char>(part[i]);
      text[n++] = (c >= 0x20 && c != 0x7F) || c == '\n' ? part[i] : '?';
    }
  constexpr int kPatience = 1000;
  if (is_ready(kPatience) && write(STDERR_FILENO, text.data(), n) < 0) return;
}

}  // namespace kvcal
