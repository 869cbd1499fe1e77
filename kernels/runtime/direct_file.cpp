#include "kernels/runtime/direct_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace kvcal::cuda {

DirectFile::DirectFile(const SourceFile& file, bool direct) : file_(file) {
  if (!direct) return;
  // The open file again, even where its name is gone or belongs to another file by now.
  const std::string self = "/proc/self/fd/" + std::to_string(file.descriptor());
  fd_ = ::open(self.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  direct_ = fd_ >= 0;
}

DirectFile::~DirectFile() {
  if (fd_ >= 0) ::close(fd_);
}

bool DirectFile::read_direct(uint64_t begin, uint64_t end, std::byte* to) const {
  const uint64_t first = begin / kAlignment * kAlignment, last = (end + kAlignment - 1) / kAlignment * kAlignment;
  uint64_t at = first;
  while (at < end) {
    const ssize_t n = ::pread(fd_, to + (at - first), last - at, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) direct_ = false;  // a file system that opens so, but does not read so
    if (n <= 0) return false;
    at += static_cast<uint64_t>(n);
  }
  bytes_read_ += at - first;
  return true;
}

const std::byte* DirectFile::read(uint64_t begin, uint64_t end, std::byte* to) const {
  std::byte* const wanted = to + begin % kAlignment;
  if (direct_ && !file_.is_cached(begin, end - begin) && read_direct(begin, end, to)) return wanted;
  file_.read(begin, {wanted, end - begin});
  bytes_read_ += end - begin;
  return wanted;
}

}  // namespace kvcal::cuda
