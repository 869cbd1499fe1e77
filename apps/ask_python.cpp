#include "ask_python.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/number_text.h"
#include "installed_script.h"

extern char** environ;

namespace kvcal {
namespace {

constexpr size_t kMostBytes = size_t{4} << 20;

std::atomic<pid_t> g_asked = 0;  // the child's, for the signal handler; 0: none
static_assert(std::atomic<pid_t>::is_always_lock_free);

/// A process in a group of its own, which ends with this object.
class Child {
 public:
  Child(const std::string& program, const std::string& option, std::chrono::milliseconds patience)
      : option_(option), patience_(patience) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) fail(option_ + ": " + std::strerror(errno));
    output_ = ends[0];
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, ends[1], STDERR_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    std::string name = program, dash_c = "-c", text(installed_script());
    char* arguments[] = {name.data(), dash_c.data(), text.data(), nullptr};
    const int error = posix_spawnp(&process_, name.c_str(), &files, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
    if (error == 0) {
      g_asked = process_;
      return;
    }
    process_ = 0;
    close(output_);
    fail(option_ + ": " + (error == ENOENT ? "no such program" : std::strerror(error)));
  }
  ~Child() {
    close(output_);
    if (process_ == 0) return;
    g_asked = 0;
    kill(-process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  std::string read_all() const {
    std::string text, buffer(size_t{64} << 10, '\0');
    while (true) {
      pollfd ready = {output_, POLLIN, 0};
      const int n_ready = poll(&ready, 1, static_cast<int>(left().count()));
      if (n_ready < 0 && errno == EINTR) continue;
      if (n_ready <= 0) fail_late();
      const ssize_t n = read(output_, buffer.data(), buffer.size());
      if (n <= 0) return text;
      text.append(buffer, 0, static_cast<size_t>(n));
      if (text.size() > kMostBytes) fail(option_ + ": answers with more than 4 MiB");
    }
  }

  /// The exit status, after all was read.
  int wait() {
    int status = 0;
    while (waitpid(process_, &status, WNOHANG) == 0) {
      if (left().count() == 0) fail_late();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    process_ = g_asked = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  }

 private:
  std::chrono::milliseconds left() const {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline_ - std::chrono::steady_clock::now());
    return std::max(left, std::chrono::milliseconds(0));
  }
  [[noreturn]] void fail_late() const {
    fail(option_ + ": no answer within " + shortest_double(static_cast<double>(patience_.count()) / 1000) + " seconds");
  }

  std::string option_;
  std::chrono::milliseconds patience_;
  std::chrono::steady_clock::time_point deadline_ = std::chrono::steady_clock::now() + patience_;
  pid_t process_ = 0;
  int output_ = -1;
};

std::string last_line(std::string text) {
  constexpr size_t kShown = 300;
  text.erase(text.find_last_not_of("\r\n \t") + 1);
  text.erase(0, text.rfind('\n') + 1);
  return text.empty() ? "no answer" : text.substr(0, kShown);
}

}  // namespace

Json ask_python(const std::string& python, std::chrono::milliseconds patience) {
  const std::string option = "--installed " + quoted(python);
  Child child(python, option, patience);
  const std::string text = child.read_all();
  const int status = child.wait();
  // What starts with Python may print, too.
  const size_t at = text.rfind("{\"installed\":");
  const std::string line = at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
  const Json answer = Json::parse(line, nullptr, false);
  if (status != 0 || answer.is_discarded()) fail(option + ": is no Python, or cannot run: " + quoted(last_line(text)));
  return answer;
}

void end_asked_in_signal_handler() {
  if (const pid_t process = g_asked; process != 0) kill(-process, SIGKILL);
}

}  // namespace kvcal
