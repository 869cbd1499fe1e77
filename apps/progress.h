// One status line on standard error while a long job runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace kvcal {

struct Status {
  std::string where;   // "layer 3/24"
  int64_t done = 0;    // in units; the whole job is `total` of them
  int64_t total = 0;   // 0 = not known
  std::string unit;    // "tokens"
  double seconds = 0;  // since the start
};

/// "layer 3/24 · 41 % · 12,345 tokens/s · 0:12 left", truncated to the terminal's width.
std::string status_line(const Status& status, int columns);

/// Times as "m:ss" or "h:mm:ss".
std::string duration_text(double seconds);

/// Shows the line at most ten times a second, only on a terminal and unless quiet, and removes it at the end, so that
/// logs stay clean. Threads may share one.
class Progress {
 public:
  Progress(std::string unit, int64_t total, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(int64_t done, const std::string& where);

  /// Removes the line, so that something else can be printed; the next update shows it again.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  std::mutex mutex_;
  const std::string unit_;
  const int64_t total_;
  const bool shown_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_;
  bool line_open_ = false;
};

/// Ends an open status line. Async-signal-safe.
void end_status_line_in_signal_handler() noexcept;

}  // namespace kvcal
