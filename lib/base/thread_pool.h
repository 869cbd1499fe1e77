// Persistent worker threads for data-parallel loops.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kvcal {

class ThreadPool {
 public:
  /// Work of one task; worker is in [0, n_threads) and never runs two tasks at once: an index for scratch memory.
  using Task = std::function<void(int64_t task, int worker)>;

  /// The calling thread is worker 0, so n_threads - 1 threads are started; 1 runs everything inline. Throws Error when
  /// n_threads < 1 or the system refuses a thread.
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const { return n_threads_; }

  /// Runs fn for every task in [0, n_tasks) and returns when all are done. Which worker gets a task is not determined.
  /// When tasks throw, tasks not yet begun are dropped and the exception of the lowest task is rethrown, whatever the
  /// timing. Called from inside a task of the same pool it runs inline on that worker; calls from different threads
  /// take turns.
  void parallel_for(int64_t n_tasks, const Task& fn);

 private:
  struct Job;
  void work(int worker);
  void stop();

  int n_threads_;
  std::vector<std::thread> threads_;
  std::mutex turn_;  // held by the caller of parallel_for
  std::mutex mutex_;
  std::condition_variable job_posted_, job_left_;
  Job* job_ = nullptr;  // guarded by mutex_, as are the next two
  uint64_t n_jobs_ = 0;
  bool stopping_ = false;
};

/// Processors this process may use.
int available_processors();

}  // namespace kvcal
