// What the fuzz entries share: the only way a reader may fail is one Error of one printable line.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"

namespace kvcal::fuzzing {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

/// Runs f and returns whether it ended without an Error. Any other exception, and a message of several lines or of
/// more than a screenful, is a finding.
template <class F>
bool accepts(F&& f) {
  try {
    f();
    return true;
  } catch (const Error& e) {
    const std::string_view message = e.what();
    require(!message.empty(), "an error has a message");
    const bool one_line = std::all_of(message.begin(), message.end(), [](unsigned char c) { return c >= 0x20; });
    require(one_line, "an error message is one line without control characters");
    require(message.size() < 4096, "an error message is short");
    return false;
  }
}

/// A file that exists in memory only, for readers that want a path.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) { require(fd_ >= 0, "memfd_create works"); }
  MemoryFile(const uint8_t* data, size_t size) : MemoryFile() {
    require(::write(fd_, data, size) == static_cast<ssize_t>(size), "memory files can be written");
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace kvcal::fuzzing
