// cost MIB SECONDS COMMAND...: runs the command, which may take so much memory and time of the processor, and ends it
// where it takes more. Prints both; exits with 1 where there was too much of one, or a signal ended the command.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

namespace {

long resident_mib(pid_t pid) {
  std::ifstream statm("/proc/" + std::to_string(pid) + "/statm");
  long size = 0, resident = 0;
  statm >> size >> resident;
  return resident * (::sysconf(_SC_PAGESIZE) >> 10) >> 10;
}

double seconds(const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); }

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return std::fprintf(stderr, "usage: cost MIB SECONDS COMMAND...\n"), 2;
  const long most_mib = std::atol(argv[1]), most_seconds = std::atol(argv[2]);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit cpu = {static_cast<rlim_t>(most_seconds), static_cast<rlim_t>(most_seconds) + 1};
    ::setrlimit(RLIMIT_CPU, &cpu);
    ::execvp(argv[3], argv + 3);
    ::_exit(127);
  }
  constexpr int kTurnsOfASecond = 100;
  int status = 0;
  rusage usage{};
  // Of the clock six times as much: something else may run, but what waits for ever ends, too.
  for (long turn = 0; ::wait4(child, &status, WNOHANG, &usage) == 0; ++turn) {
    if (resident_mib(child) > most_mib || turn > 6 * most_seconds * kTurnsOfASecond) ::kill(child, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1000 / kTurnsOfASecond));
  }
  const long mib = usage.ru_maxrss >> 10;
  std::fprintf(stderr, "%ld MiB, %.1f s\n", mib, seconds(usage.ru_utime) + seconds(usage.ru_stime));
  return mib > most_mib || !WIFEXITED(status) || WEXITSTATUS(status) == 127 ? 1 : 0;
}
