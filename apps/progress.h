// How far a long job is, on standard error: a status line on a terminal, or JSON lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "calibrate/listener.h"

namespace kvcal {

/// Line: only on a terminal.
enum class ProgressForm : uint8_t { Line, JsonLines, None };

/// "auto" is Line. Throws Error for another name.
ProgressForm progress_form(const std::string& name);

/// What --progress is for, for --help.
inline constexpr const char* kProgressHelp =
    "auto: a status line on a terminal; json: a JSON object a line on standard error; none";

struct Status {
  int layer = 0, n_layers = 0;      // layer from 1; 0: none has begun. Of answers: that one and their number
  double done = 0;                  // share of the work, 0 to 1
  double seconds = 0;               // since the start
  double tokens_per_second = 0;     // through all layers; 0: not known yet
  std::optional<double> remaining;  // seconds; none: not known yet
  std::string unit = "layer";       // or "answer"
};

/// After a step of a sweep that has run for so many seconds. What a resumed run had done before says nothing of its
/// speed.
Status status_of(const SweepOutline& sweep, const RunStep& step, int64_t work_done, double seconds);

/// "layer 3/24 · 41 % · 12,345 tokens/s · 0:12 left", truncated to the terminal's width.
std::string status_line(const Status& status, int columns);

/// The members of a line of --progress json; `sweep` from 1.
Json status_json(const Status& status, int sweep);

/// Times as "m:ss" or "h:mm:ss".
std::string duration_text(double seconds);

/// The progress of one sweep, or of answers. The line is renewed at most ten times a second and removed at the end, so
/// that logs stay clean; a JSON object is written at the beginning, at most once a second, and at the end of a sweep
/// that ends.
class Progress {
 public:
  Progress(ProgressForm form, SweepOutline sweep, int number, std::string unit = "layer");
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const RunStep& step, int64_t work_done);

  /// All of the work is done.
  void finish();

  /// Removes the line, so that something else can be printed; the next update shows it again.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  double seconds_at(Clock::time_point now) const { return std::chrono::duration<double>(now - start_).count(); }
  void show(Status status);

  std::mutex mutex_;
  const SweepOutline sweep_;
  const int number_;
  const std::string unit_;
  ProgressForm form_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_;
  int n_layers_ = 0;
  bool line_open_ = false;
};

/// Ends an open status line. Async-signal-safe.
void end_status_line_in_signal_handler() noexcept;

}  // namespace kvcal
