#include "calibrate/workers.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"

namespace kvcal {
namespace {

/// Ends a work that is not wanted any more; nobody sees it.
struct Ended {};

class Workers {
 public:
  void start(const std::function<void(const HearStep&)>& work) {
    {
      const std::lock_guard lock(mutex_);
      ++running_;
    }
    try {
      threads_.emplace_back([this, work] { run(work); });
    } catch (const std::system_error& e) {
      end(nullptr);
      fail(std::string("starting a thread for a device: ") + e.what());
    }
  }

  void hear_all(const HearStep& hear) {
    std::unique_lock lock(mutex_);
    begun_ = true;
    happened_.notify_all();
    for (;;) {
      happened_.wait(lock, [&] { return !steps_.empty() || running_ == 0; });
      if (steps_.empty()) return;
      const RunStep step = steps_.front();
      steps_.pop_front();
      lock.unlock();
      hear(step);
      lock.lock();
    }
  }

  void stop(const std::exception_ptr& why) {
    const std::lock_guard lock(mutex_);
    if (!first_) first_ = why;
    happened_.notify_all();
  }

  /// What was thrown first; null: nothing.
  std::exception_ptr join() {
    for (std::thread& t : threads_) t.join();
    return first_;
  }

 private:
  void run(const std::function<void(const HearStep&)>& work) {
    std::exception_ptr error;
    try {
      if (is_wanted()) work([this](const RunStep& step) { post(step); });
    } catch (const Ended&) {
    } catch (...) {
      error = std::current_exception();
    }
    end(error);
  }

  /// All begin or none: one alone would wait for the others.
  bool is_wanted() {
    std::unique_lock lock(mutex_);
    happened_.wait(lock, [&] { return begun_ || first_; });
    return begun_;
  }

  void post(const RunStep& step) {
    const std::lock_guard lock(mutex_);
    if (first_) throw Ended();
    steps_.push_back(step);
    happened_.notify_all();
  }

  void end(const std::exception_ptr& error) {
    const std::lock_guard lock(mutex_);
    if (error && !first_) first_ = error;
    --running_;
    happened_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable happened_;
  std::deque<RunStep> steps_;  // guarded by mutex_, as are the next three
  size_t running_ = 0;
  bool begun_ = false;  // all are there
  std::exception_ptr first_;
  std::vector<std::thread> threads_;
};

}  // namespace

void run_workers(size_t n, const std::function<void(size_t, const HearStep&)>& work, const HearStep& hear) {
  Workers workers;
  try {
    for (size_t i = 0; i < n; ++i) workers.start([&work, i](const HearStep& step) { work(i, step); });
    workers.hear_all(hear);
  } catch (...) {
    workers.stop(std::current_exception());
  }
  if (const std::exception_ptr first = workers.join()) std::rethrow_exception(first);
}

}  // namespace kvcal
