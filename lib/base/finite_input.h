// Inputs that end.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <string>

namespace kvcal {

/// The most that is read of a pipe, which is held whole.
constexpr size_t kMostPiped = size_t{512} << 20;

/// A pipe without a name, as a shell makes for <(COMMAND) and '|': it ends when its writers do.
bool is_from_a_shell(int fd, const struct stat& info);

/// Throws Error for an open file that may never end: a named pipe, a device or a socket. A regular file has an end, and
/// so has a pipe of a shell.
void check_has_end(int fd, const std::string& name);

}  // namespace kvcal
