#include "progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "base/number_text.h"
#include "table.h"
#include "terminal.h"

namespace kvcal {
namespace {

constexpr std::chrono::duration<double> kLineInterval(0.1), kJsonInterval(1);
constexpr double kJsonShare = 0.02;       // of the time so far, before the next JSON line
constexpr double kSettlingSeconds = 1.0;  // a rate measured over less says nothing about the time left

// Whether a line without an end is on the terminal: read by the signal handler.
std::atomic<bool> g_line_open{false};
static_assert(std::atomic<bool>::is_always_lock_free);

bool is_smart_terminal() {
  const char* kind = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
}

int terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

}  // namespace

ProgressForm progress_form(const std::string& name) {
  if (name == "auto") return ProgressForm::Line;
  if (name == "json") return ProgressForm::JsonLines;
  if (name == "none") return ProgressForm::None;
  fail_unknown("form of --progress", name, std::array<std::string, 3>{"auto", "json", "none"});
}

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

Status status_of(const SweepOutline& sweep, const RunStep& step, int64_t work_done, double seconds) {
  Status status;
  status.layer = step.layer + 1;
  status.n_layers = step.n_layers;
  status.seconds = seconds;
  const auto work = static_cast<double>(sweep.work), here = static_cast<double>(work_done - sweep.work_done);
  if (sweep.work <= 0) return status;
  status.done = std::clamp(static_cast<double>(work_done) / work, 0.0, 1.0);
  if (seconds < kSettlingSeconds || here <= 0) return status;
  status.tokens_per_second = static_cast<double>(sweep.n_tokens()) * (here / work) / seconds;
  status.remaining = seconds * std::max(0.0, work - static_cast<double>(work_done)) / here;
  return status;
}

std::string status_line(const Status& status, int columns) {
  std::string line = status.unit + " " + std::to_string(status.layer) + "/" + std::to_string(status.n_layers) + " · " +
                     std::to_string(static_cast<int>(100.0 * status.done)) + " %";
  if (status.tokens_per_second > 0) line += " · " + grouped(std::llround(status.tokens_per_second)) + " tokens/s";
  if (status.remaining) line += " · " + duration_text(*status.remaining) + " left";
  return cut_to_width(line, columns);
}

Json status_json(const Status& status, int sweep) {
  const auto thousandths = [](double value) { return std::round(1000.0 * value) / 1000.0; };
  return {{"event", "progress"},
          {"sweep", sweep},
          {status.unit, status.layer},
          {"n_" + status.unit + "s", status.n_layers},
          {"done", thousandths(status.done)},
          {"seconds", thousandths(status.seconds)},
          {"tokens_per_second", status.tokens_per_second > 0 ? Json(std::round(status.tokens_per_second)) : Json()},
          {"seconds_left", status.remaining ? Json(thousandths(*status.remaining)) : Json()}};
}

Progress::Progress(ProgressForm form, SweepOutline sweep, int number, std::string unit)
    : sweep_(std::move(sweep)), number_(number), unit_(std::move(unit)), form_(form) {
  if (form_ == ProgressForm::Line && !is_smart_terminal()) form_ = ProgressForm::None;
}

Progress::~Progress() { clear(); }

void Progress::update(const RunStep& step, int64_t work_done) {
  if (form_ == ProgressForm::None) return;
  const std::lock_guard lock(mutex_);
  n_layers_ = step.n_layers;
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  const std::chrono::duration<double> so_far = now - start_;
  const auto pause = form_ == ProgressForm::JsonLines ? std::max(kJsonInterval, so_far * kJsonShare) : kLineInterval;
  next_ = now + std::chrono::duration_cast<Clock::duration>(pause);
  show(status_of(sweep_, step, work_done, so_far.count()));
}

void Progress::finish() {
  if (form_ != ProgressForm::JsonLines) return;
  const std::lock_guard lock(mutex_);
  if (n_layers_ == 0) return;  // no layer ran
  show(status_of(sweep_, {n_layers_ - 1, n_layers_, 0}, sweep_.work, seconds_at(Clock::now())));
}

void Progress::show(Status status) {
  status.unit = unit_;
  if (form_ == ProgressForm::JsonLines) return say_raw(status_json(status, number_).dump() + "\n");
  g_line_open = line_open_ = true;
  // One column is left free: some terminals wrap as soon as the last one is filled.
  say_raw("\r" + status_line(status, terminal_columns() - 1) + "\x1b[K");
}

void Progress::clear() {
  const std::lock_guard lock(mutex_);
  if (!line_open_) return;
  say_raw("\r\x1b[K");
  g_line_open = line_open_ = false;
}

void end_status_line_in_signal_handler() noexcept {
  if (g_line_open) say_in_signal_handler({"\n"});
}

}  // namespace kvcal
