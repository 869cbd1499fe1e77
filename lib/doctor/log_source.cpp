// Where the bytes of a log come from.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "base/descriptor.h"
#include "base/finite_input.h"
#include "base/read_file.h"
#include "base/size_text.h"
#include "doctor/diagnose.h"

namespace kvcal {
namespace {

[[noreturn]] void fail_errno(const std::string& name) { fail(name + ": cannot be read: " + errno_text(errno)); }

/// Opened for as long as it is read.
class OpenLog {
 public:
  // O_NONBLOCK: opening a pipe that nobody writes to would wait before its kind is known.
  OpenLog(const std::string& path, std::string name)
      : name_(std::move(name)),
        file_(path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
    if (!file_) fail_errno(name_);
  }

  /// Whether it has an end that is known.
  bool check() {
    struct stat info {};
    if (::fstat(file_.get(), &info) != 0) fail_errno(name_);
    check_has_end(file_.get(), name_);
    if (::fcntl(file_.get(), F_SETFL, ::fcntl(file_.get(), F_GETFL) & ~O_NONBLOCK) != 0) fail_errno(name_);
    return S_ISREG(info.st_mode);
  }

  size_t read(char* buffer, size_t bytes) {
    for (;;) {
      const ssize_t n = ::read(file_.get(), buffer, bytes);
      if (n >= 0) return static_cast<size_t>(n);
      if (errno != EINTR) fail_errno(name_);
    }
  }

 private:
  std::string name_;
  Descriptor file_;
};

}  // namespace

Doctor::Source log_source(const std::string& path, uint64_t most_streamed) {
  const std::string name = path == "-" ? "standard input" : quoted(path);
  const auto log = std::make_shared<OpenLog>(path, name);
  const bool whole = path != "-" && log->check();
  return [=, streamed = uint64_t{0}](char* buffer, size_t bytes) mutable {
    const size_t n = log->read(buffer, bytes);
    streamed += n;
    if (!whole && streamed > most_streamed)
      fail(name + ": gives more than " + bytes_text(most_streamed) +
           ", and may never end; put what matters of it into a file");
    return n;
  };
}

}  // namespace kvcal
