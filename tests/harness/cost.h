// What a function costs, in a process of its own: its peak of memory is nobody else's, and one that hangs is ended.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>
#include <functional>
#include <string>

namespace kvcal {

struct Cost {
  bool ended = false;     // by itself
  double seconds = 0;     // of the processor: others use the machine, too
  int64_t kilobytes = 0;  // by which the peak grew
};

inline int64_t peak_kilobytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

inline double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Memory that a child's writes can be read from. Zeros at first.
template <class T>
class Shared {
 public:
  Shared()
      : value_(static_cast<T*>(::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
  }
  ~Shared() { ::munmap(value_, sizeof(T)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  T& operator*() const { return *value_; }
  T* operator->() const { return value_; }

 private:
  T* value_;
};

/// Runs f, which may not throw, for at most so many seconds of the processor.
inline Cost cost_of(const std::function<void()>& f, rlim_t most_seconds = 20) {
  const Shared<Cost> cost;
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit cpu = {most_seconds, most_seconds};
    ::setrlimit(RLIMIT_CPU, &cpu);
    const int64_t before = peak_kilobytes();
    const double start = cpu_seconds();
    f();
    *cost = {true, cpu_seconds() - start, peak_kilobytes() - before};
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return *cost;
}

}  // namespace kvcal
