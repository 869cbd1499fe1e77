#include "base/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/descriptor.h"
#include "base/finite_input.h"
#include "base/input_files.h"

namespace kvcal {
std::string errno_text(int error) {
  std::string text = std::generic_category().message(error);
  if (text.size() > 1 && text[0] >= 'A' && text[0] <= 'Z' && text[1] >= 'a') text[0] += 'a' - 'A';
  return text;
}

std::string read_file(const std::filesystem::path& path, size_t max_bytes) {
  const std::string name = quoted(path.string());
  // O_NONBLOCK: opening a pipe that nobody writes to would otherwise wait before fstat could refuse it.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) fail(name + ": cannot open: " + errno_text(errno));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) fail(name + ": cannot read its size: " + errno_text(errno));
  if (S_ISDIR(info.st_mode)) fail(name + ": is a folder, expected a file");
  if (is_from_a_shell(file.get(), info)) {
    max_bytes = std::min(max_bytes, kMostPiped);
    ::fcntl(file.get(), F_SETFL, 0);  // its writer may be slow
  } else if (!S_ISREG(info.st_mode)) {
    fail(name + ": is not a regular file");
  }
  note_input(path, info, InputUse::Once);
  const auto too_large = [&](size_t bytes) {
    fail(name + ": has " + std::to_string(bytes) + " bytes or more, expected at most " + std::to_string(max_bytes));
  };
  if (static_cast<size_t>(info.st_size) > max_bytes) too_large(static_cast<size_t>(info.st_size));

  // One byte more than announced, so that a file that grows meanwhile (or a /proc file of "size 0") is read to its end.
  std::string bytes(static_cast<size_t>(info.st_size) + 1, '\0');
  size_t used = 0;
  for (;;) {
    const ssize_t n = ::read(file.get(), bytes.data() + used, bytes.size() - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(name + ": cannot read: " + errno_text(errno));
    used += static_cast<size_t>(n);
    if (used > max_bytes) too_large(used);
    if (n == 0) break;
    if (used == bytes.size()) bytes.resize(std::max<size_t>(2 * bytes.size(), 4096));
  }
  bytes.resize(used);
  return bytes;
}

}  // namespace kvcal
