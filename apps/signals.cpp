#include "signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <string_view>

#include "ask_python.h"
#include "base/atomic_file.h"
#include "checkpoint/mapped_address.h"
#include "progress.h"
#include "terminal.h"
#include "verbs.h"

namespace kvcal {
namespace {

[[noreturn]] void end_in_signal_handler(Exit exit, std::string_view before, std::string_view name,
                                        std::string_view after) {
  // Several threads may meet the same lost page at once: the first one speaks for all. No handler interrupts another
  // on its thread (they block all signals), so whoever waits here is not in the first one's way.
  static std::atomic_flag ending;
  while (ending.test_and_set()) pause();
  end_asked_in_signal_handler();
  unlink_temporaries_in_signal_handler();
  end_status_line_in_signal_handler();
  say_in_signal_handler({before, name, after});
  _exit(static_cast<int>(exit));
}

// Stops at once: every output file is either complete or still under its temporary name.
extern "C" void stop_in_signal_handler(int) {
  end_in_signal_handler(Exit::Interrupted, "kvcal: interrupted\n", "", "");
}

// The reader of our output has gone ("| head"): end silently, the way every filter does.
extern "C" void pipe_closed_in_signal_handler(int) {
  unlink_temporaries_in_signal_handler();
  signal(SIGPIPE, SIG_DFL);
  raise(SIGPIPE);
}

// A page of a mapped file is not there any more. Anything else behind this signal is a bug and ends as bugs do.
extern "C" void page_lost_in_signal_handler(int number, siginfo_t* info, void*) {
  const std::string_view file = mapped_file_at(info->si_addr);
  if (!file.empty())
    end_in_signal_handler(Exit::Failure, "kvcal: error: ", file,
                          ": part of it can no longer be read: it was truncated while in use, or its disk "
                          "failed; is another program rewriting it?\n");
  signal(number, SIG_DFL);
  raise(number);
}

void handle(int number, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  sigfillset(&action.sa_mask);
  sigaction(number, &action, nullptr);
}

}  // namespace

void handle_signals() {
  handle(SIGINT, stop_in_signal_handler);
  handle(SIGTERM, stop_in_signal_handler);
  handle(SIGPIPE, pipe_closed_in_signal_handler);
  handle(SIGXFSZ, SIG_IGN);
  struct sigaction lost {};
  lost.sa_sigaction = page_lost_in_signal_handler;
  lost.sa_flags = SA_SIGINFO;
  sigfillset(&lost.sa_mask);
  sigaction(SIGBUS, &lost, nullptr);
  // nohup asks to survive the terminal.
  struct sigaction inherited {};
  if (sigaction(SIGHUP, nullptr, &inherited) == 0 && inherited.sa_handler != SIG_IGN)
    handle(SIGHUP, stop_in_signal_handler);
}

}  // namespace kvcal
