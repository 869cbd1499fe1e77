// What signals do to the program.
#pragma once

namespace kvcal {

/// Ctrl-C and the like end it at once with exit code 130, leaving no partial or temporary files. A closed pipe ends it
/// silently. A file truncated while mapped gives one error line and exit code 2. A limit on file size (ulimit -f)
/// becomes an error of the write that hits it.
void handle_signals();

}  // namespace kvcal
