// What signals do to the program.
#pragma once

namespace kvcal {

/// Ctrl-C and the like end it at once, without half files or temporary ones, exit code 130. A reader that has gone ends
/// it silently. A file that is cut short while it is mapped is one error line and exit code 2. A limit on the size of
/// files (ulimit -f) becomes an error of the write that hits it.
void handle_signals();

}  // namespace kvcal
