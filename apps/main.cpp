// Parses the command line, runs one verb, prints one error line, returns the exit code. Nothing else in the program
// prints errors or knows exit codes.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <new>
#include <string>
#include <string_view>

#include "base/atomic_file.h"
#include "base/error.h"
#include "command_line.h"
#include "progress.h"

namespace kvcal {
namespace {

// Stops at once: every output file is either complete or still under its temporary name.
extern "C" void stop_in_signal_handler(int) {
  unlink_temporaries_in_signal_handler();
  end_status_line_in_signal_handler();
  constexpr std::string_view kLine = "kvcal: interrupted\n";
  if (write(STDERR_FILENO, kLine.data(), kLine.size()) < 0) _exit(static_cast<int>(Exit::Interrupted));
  _exit(static_cast<int>(Exit::Interrupted));
}

// The reader of our output has gone ("| head"): end silently, the way every filter does.
extern "C" void pipe_closed_in_signal_handler(int) {
  unlink_temporaries_in_signal_handler();
  signal(SIGPIPE, SIG_DFL);
  raise(SIGPIPE);
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

void handle_signals() {
  handle(SIGINT, stop_in_signal_handler);
  handle(SIGTERM, stop_in_signal_handler);
  handle(SIGPIPE, pipe_closed_in_signal_handler);
  // nohup asks to survive the terminal.
  struct sigaction inherited {};
  if (sigaction(SIGHUP, nullptr, &inherited) == 0 && inherited.sa_handler != SIG_IGN)
    handle(SIGHUP, stop_in_signal_handler);
}

// With a standard descriptor closed, the next file opened would take its number and receive what is printed. Read-only,
// so that printing there is an error.
void occupy_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (fcntl(fd, F_GETFD) == -1 && open("/dev/null", O_RDONLY) != fd) _exit(static_cast<int>(Exit::Failure));
}

Exit run(int argc, char** argv) {
  const Exit exit = parse_command_line(argc, argv)();
  std::cout.flush();
  if (!std::cout) fail("writing results to standard output failed; is the disk full, or the output closed?");
  return exit;
}

int report(std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::cerr << "kvcal: error: " << message << '\n';
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
    return kvcal::report("out of memory");
  } catch (const std::exception& error) {
    return kvcal::report(error.what());
  }
}
