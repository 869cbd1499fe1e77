#include "base/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <csignal>
#include <exception>
#include <system_error>

#include "base/error.h"

namespace kvcal {
namespace {

/// The pool and worker that the current thread is running a task for.
thread_local const ThreadPool* current_pool = nullptr;
thread_local int current_worker = 0;

/// Threads started in this scope leave Ctrl-C and the like to the main thread.
class TerminationSignalsBlocked {
 public:
  TerminationSignalsBlocked() {
    sigset_t blocked;
    sigemptyset(&blocked);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) sigaddset(&blocked, signal);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~TerminationSignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  TerminationSignalsBlocked(const TerminationSignalsBlocked&) = delete;
  TerminationSignalsBlocked& operator=(const TerminationSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

/// One parallel_for; lives on the caller's stack until every worker that joined has left.
struct ThreadPool::Job {
  const Task& fn;
  const int64_t n_tasks;
  std::atomic<int64_t> next = 0;
  int n_inside = 0;  // workers running tasks; guarded by the pool's mutex_

  std::mutex error_mutex;
  std::exception_ptr error;
  int64_t failed_task = 0;

  void run(const ThreadPool& pool, int worker) {
    const ThreadPool* const outer_pool = current_pool;
    const int outer_worker = current_worker;
    current_pool = &pool;
    current_worker = worker;
    for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < n_tasks;) {
      try {
        fn(task, worker);
      } catch (...) {
        record_error(task);
      }
    }
    current_pool = outer_pool;
    current_worker = outer_worker;
  }

  // Tasks are claimed in ascending order, so everything below a failed task has been claimed and will report itself:
  // the lowest failure is always found although the rest is dropped.
  void record_error(int64_t task) {
    next.store(n_tasks, std::memory_order_relaxed);
    const std::lock_guard lock(error_mutex);
    if (!error || task < failed_task) {
      error = std::current_exception();
      failed_task = task;
    }
  }
};

ThreadPool::ThreadPool(int n_threads) : n_threads_(n_threads) {
  if (n_threads < 1) fail("a thread pool of " + std::to_string(n_threads) + " threads, expected at least 1");
  const TerminationSignalsBlocked blocked;
  try {
    for (int worker = 1; worker < n_threads; ++worker) threads_.emplace_back([this, worker] { work(worker); });
  } catch (const std::system_error& e) {
    const size_t started = threads_.size() + 1;
    stop();
    fail("cannot start " + std::to_string(n_threads) + " threads: the system refused after " + std::to_string(started) +
         ": " + e.code().message());
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  job_posted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void ThreadPool::work(int worker) {
  uint64_t n_seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    job_posted_.wait(lock, [&] { return stopping_ || (job_ && n_jobs_ != n_seen); });
    if (stopping_) return;
    n_seen = n_jobs_;
    Job& job = *job_;
    ++job.n_inside;
    lock.unlock();
    job.run(*this, worker);
    lock.lock();
    if (--job.n_inside == 0) job_left_.notify_one();
  }
}

void ThreadPool::parallel_for(int64_t n_tasks, const Task& fn) {
  if (n_tasks <= 0) return;
  if (current_pool == this) {
    for (int64_t task = 0; task < n_tasks; ++task) fn(task, current_worker);
    return;
  }
  const std::lock_guard turn(turn_);
  Job job{fn, n_tasks, {}, {}, {}, {}, {}};
  if (n_tasks > 1 && !threads_.empty()) {
    {
      const std::lock_guard lock(mutex_);
      job_ = &job;
      ++n_jobs_;
    }
    job_posted_.notify_all();
  }
  job.run(*this, 0);
  {
    // A worker that wakes only now finds no job; those inside are waited for.
    std::unique_lock lock(mutex_);
    job_ = nullptr;
    job_left_.wait(lock, [&] { return job.n_inside == 0; });
  }
  if (job.error) std::rethrow_exception(job.error);
}

int available_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int n = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
  return n > 0 ? n : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace kvcal
