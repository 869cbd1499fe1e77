// Inputs that end.
#pragma once

#include <string>

namespace kvcal {

/// Throws Error for an open file that may never end: a named pipe, a device or a socket. A regular file has an end, and
/// so has a pipe without a name, as a shell makes for <(COMMAND) and '|': it ends when its writers do.
void check_has_end(int fd, const std::string& name);

}  // namespace kvcal
