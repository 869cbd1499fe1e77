#include "progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

#include "base/number_text.h"
#include "table.h"

namespace kvcal {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr double kSettlingSeconds = 1.0;  // a rate measured over less says nothing about the time left

// Whether a line without an end is on the terminal: read by the signal handler.
std::atomic<bool> g_line_open{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void put(std::string_view text) {
  // A terminal that went away is no reason to stop the job.
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) return;
}

bool is_smart_terminal() {
  const char* kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

int terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<int64_t>(std::ceil(std::max(seconds, 0.0)));
  char text[40];
  if (whole >= 3600)
    std::snprintf(text, sizeof text, "%lld:%02d:%02d", static_cast<long long>(whole / 3600),
                  static_cast<int>(whole / 60 % 60), static_cast<int>(whole % 60));
  else
    std::snprintf(text, sizeof text, "%d:%02d", static_cast<int>(whole / 60), static_cast<int>(whole % 60));
  return text;
}

std::string status_line(const Status& status, int columns) {
  std::string line = status.where;
  const auto add = [&](const std::string& part) { line += (line.empty() ? "" : " · ") + part; };
  const double fraction =
      status.total > 0 ? std::min(1.0, static_cast<double>(status.done) / static_cast<double>(status.total)) : 0.0;
  if (status.total > 0) add(std::to_string(static_cast<int>(100.0 * fraction)) + " %");
  if (status.seconds > 0 && status.done > 0)
    add(grouped(std::llround(static_cast<double>(status.done) / status.seconds)) + " " + status.unit + "/s");
  if (fraction > 0 && status.seconds >= kSettlingSeconds)
    add(duration_text(status.seconds * (1.0 - fraction) / fraction) + " left");
  return cut_to_width(line, columns);
}

Progress::Progress(std::string unit, int64_t total, bool quiet)
    : unit_(std::move(unit)), total_(total), shown_(!quiet && is_smart_terminal()) {}

Progress::~Progress() { clear(); }

void Progress::update(int64_t done, const std::string& where) {
  if (!shown_) return;
  const std::lock_guard lock(mutex_);
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + kInterval;
  const Status status = {where, done, total_, unit_, std::chrono::duration<double>(now - start_).count()};
  g_line_open = line_open_ = true;
  // One column is left free: some terminals wrap as soon as the last one is filled.
  put("\r" + status_line(status, terminal_columns() - 1) + "\x1b[K");
}

void Progress::clear() {
  const std::lock_guard lock(mutex_);
  if (!line_open_) return;
  put("\r\x1b[K");
  g_line_open = line_open_ = false;
}

void end_status_line_in_signal_handler() noexcept {
  if (g_line_open) put("\n");
}

}  // namespace kvcal
