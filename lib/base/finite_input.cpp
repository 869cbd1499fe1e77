#include "base/finite_input.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <cerrno>

#include "base/error.h"
#include "base/read_file.h"

namespace kvcal {

bool is_from_a_shell(int fd, const struct stat& info) {
  struct statfs system {};
  return S_ISFIFO(info.st_mode) && ::fstatfs(fd, &system) == 0 && system.f_type == PIPEFS_MAGIC;
}

void check_has_end(int fd, const std::string& name) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) fail(name + ": cannot be read: " + errno_text(errno));
  if (S_ISREG(info.st_mode) || is_from_a_shell(fd, info)) return;
  if (S_ISDIR(info.st_mode)) fail(name + ": cannot be read: " + errno_text(EISDIR));
  fail(name + ": is a " + (S_ISFIFO(info.st_mode) ? "named pipe" : "device or socket") +
       ", which may never end; expected a file, '-' for standard input, or <(COMMAND)");
}

}  // namespace kvcal
