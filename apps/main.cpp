// Parses the command line, runs one verb, prints one error line, returns the exit code. Nothing else in the program
// prints errors or knows exit codes.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <string>

#include "base/error.h"
#include "base/input_files.h"
#include "command_line.h"
#include "signals.h"
#include "terminal.h"

namespace kvcal {
namespace {

// With a standard descriptor closed, the next file opened would take its number and receive what is printed. Read-only,
// so that printing there is an error.
void occupy_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", O_RDONLY) != fd) _exit(static_cast<int>(Exit::Failure));
}

Exit run(int argc, char** argv) {
  const InputFiles inputs;
  const Exit exit = parse_command_line(argc, argv)();
  flush_output();
  return exit;
}

int report(std::string message) {
  constexpr size_t kLongestMessage = 16384;
  std::replace(message.begin(), message.end(), '\n', ' ');
  say("kvcal: error: ", printable(message, kLongestMessage));
  return static_cast<int>(Exit::Failure);
}

}  // namespace
}  // namespace kvcal

int main(int argc, char** argv) {
  kvcal::occupy_standard_descriptors();
  kvcal::handle_signals();
  try {
    return static_cast<int>(kvcal::run(argc, argv));
  } catch (const std::bad_alloc&) {
    return kvcal::report(
        "out of memory; 'calibrate --dry-run' shows what a run needs; --memory, --chunk-tokens and fewer prompts "
        "reduce it");
  } catch (const std::exception& error) {
    return kvcal::report(error.what());
  }
}
