// Lines of many processes in one pipe, and a standard error that nobody reads.
#include "terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <climits>
#include <csignal>
#include <map>
#include <sstream>
#include <thread>

namespace kvcal {
namespace {

constexpr int kProcesses = 16, kLines = 60;

struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends.data()), 0); }
  std::array<int, 2> ends{};
};

// Runs `body` in a process whose standard error is the pipe.
template <class Body>
pid_t with_standard_error(const Pipe& pipe, Body&& body) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  dup2(pipe.ends[1], STDERR_FILENO);
  close(pipe.ends[0]);
  close(pipe.ends[1]);
  body();
  _exit(0);
}

std::string line_from(int process, int n) {
  // From short to as long as a pipe takes in one piece, the line break included.
  const size_t length = n % 3 == 2 ? PIPE_BUF - 1 : 40 + static_cast<size_t>(n * 7);
  std::string line = std::to_string(process) + " " + std::to_string(n) + " ";
  return line + std::string(length - line.size(), static_cast<char>('a' + process));
}

void expect_whole_lines(bool non_blocking) {
  const Pipe pipe;
  fcntl(pipe.ends[1], F_SETPIPE_SZ, PIPE_BUF);
  if (non_blocking) fcntl(pipe.ends[1], F_SETFL, O_NONBLOCK);
  std::vector<pid_t> children;
  for (int process = 0; process < kProcesses; ++process)
    children.push_back(with_standard_error(pipe, [&] {
      for (int n = 0; n < kLines; ++n) {
        const std::string line = line_from(process, n);
        say(line.substr(0, 10), line.substr(10, 20), line.substr(30));
      }
    }));
  close(pipe.ends[1]);
  std::string all;
  std::array<char, 700> some;
  for (ssize_t n = 0; (n = read(pipe.ends[0], some.data(), some.size())) > 0;) {
    all.append(some.data(), static_cast<size_t>(n));
    if (all.size() % 11 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  close(pipe.ends[0]);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  std::map<int, int> next;  // of each process: the lines come in its order
  std::istringstream lines(all);
  for (std::string line; std::getline(lines, line);) {
    const int process = std::atoi(line.c_str());
    ASSERT_EQ(line, line_from(process, next[process]));
    ++next[process];
  }
  ASSERT_EQ(next.size(), static_cast<size_t>(kProcesses));
  for (const auto& [process, n] : next) EXPECT_EQ(n, kLines) << process;
}

TEST(Say, LinesOfManyProcessesStayWhole) { expect_whole_lines(false); }
TEST(Say, LinesOfManyProcessesStayWholeWhereWritesDoNotWait) { expect_whole_lines(true); }

TEST(Say, LongTextComesWholeFromOneProcess) {
  const Pipe pipe;
  fcntl(pipe.ends[1], F_SETPIPE_SZ, PIPE_BUF);
  const std::string line(10 * PIPE_BUF, 'x');
  const pid_t child = with_standard_error(pipe, [&] { say(line); });
  close(pipe.ends[1]);
  std::string all;
  std::array<char, 1000> some;
  for (ssize_t n = 0; (n = read(pipe.ends[0], some.data(), some.size())) > 0;)
    all.append(some.data(), static_cast<size_t>(n));
  close(pipe.ends[0]);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(all, line + "\n");
}

TEST(Say, NobodyIsNoReasonToStop) {
  for (const char* where : {"/dev/full", "/dev/null", ""}) {
    const pid_t child = fork();
    if (child == 0) {
      close(STDERR_FILENO);
      if (*where) open(where, *where == '/' && where[5] == 'n' ? O_RDONLY : O_WRONLY);
      say("lost");
      say_in_signal_handler({"lost\n"});
      _exit(7);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << where;
  }
}

TEST(Say, AFullPipeDoesNotHoldASignal) {
  const Pipe pipe;
  fcntl(pipe.ends[1], F_SETPIPE_SZ, PIPE_BUF);
  const auto before = std::chrono::steady_clock::now();
  const pid_t child = with_standard_error(pipe, [&] {
    say(std::string(PIPE_BUF - 1, 'x'));
    say_in_signal_handler({"kvcal: ", "interrupted\n"});
  });
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(30));
  EXPECT_TRUE(WIFEXITED(status));
  close(pipe.ends[0]);
  close(pipe.ends[1]);
}

}  // namespace
}  // namespace kvcal
