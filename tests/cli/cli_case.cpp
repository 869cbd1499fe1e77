#include "cli/cli_case.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>

namespace kvcal::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto kTimeLimit = std::chrono::minutes(2);
constexpr int kTimedOut = 124;

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

fs::path beside(const Case& c, const char* extension) { return fs::path(c.stem).concat(extension); }

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "kvcal_cli_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no scratch folder " + name);
    path_ = fs::canonical(name);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// Without what git ignores, and without the hidden files that editors keep for a moment.
std::set<std::string> files_of_tree(const fs::path& top) {
  std::set<std::string> files;
  for (auto it = fs::recursive_directory_iterator(top); it != fs::recursive_directory_iterator(); ++it) {
    const std::string name = it->path().filename().string();
    if (name.starts_with('.') || name == "build" || name == "__pycache__" || name == "compile_commands.json")
      it.disable_recursion_pending();
    else if (!it->is_directory())
      files.insert(it->path().lexically_relative(top).generic_string());
  }
  return files;
}

// A program of the same name that keeps what each call with --json prints: the verb, then the output.
constexpr const char* kRecorder = R"(#!/bin/sh
case " $* " in *" --json "*|*" --format json "*) ;; *) exec "$KVCAL" "$@" ;; esac
kept=$(mktemp "$0.json.XXXXXX") && echo "$1" >"$kept"
"$KVCAL" "$@" >>"$kept"
code=$?
tail -n +2 "$kept"
exit $code
)";

fs::path recorder_in(const fs::path& folder) {
  const fs::path script = folder / "kvcal";
  std::ofstream(script) << kRecorder;
  fs::permissions(script, fs::perms::owner_all);
  return script;
}

std::vector<JsonOutput> recorded_in(const fs::path& folder) {
  std::vector<JsonOutput> all;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with("kvcal.json.")) continue;
    const std::string kept = read(entry.path());
    const size_t end = kept.find('\n');
    if (end + 1 < kept.size()) all.push_back({kept.substr(0, end), kept.substr(end + 1)});
  }
  return all;
}

bool asks_for_json(const Case& c) { return read(beside(c, ".cmd")).find("json") != std::string::npos; }

// In the child: the surroundings in which every case runs, whatever those of the test are.
[[noreturn]] void become_shell(const Case& c, const Places& places, const fs::path& scratch, const fs::path& outputs) {
  setpgid(0, 0);
  for (const int number : {SIGINT, SIGTERM, SIGPIPE, SIGHUP}) signal(number, SIG_DFL);
  const auto redirect = [](int fd, const fs::path& path, int flags) {
    const int opened = open(path.c_str(), flags, 0600);
    if (opened < 0 || dup2(opened, fd) < 0) _exit(125);
    close(opened);
  };
  redirect(STDIN_FILENO, "/dev/null", O_RDONLY);
  redirect(STDOUT_FILENO, outputs / "out", O_WRONLY | O_CREAT | O_TRUNC);
  redirect(STDERR_FILENO, outputs / "err", O_WRONLY | O_CREAT | O_TRUNC);
  const char* path = std::getenv("PATH");
  const fs::path program = asks_for_json(c) ? recorder_in(outputs) : places.program;
  setenv("PATH", (program.parent_path().string() + ":" + (path != nullptr ? path : "/usr/bin:/bin")).c_str(), 1);
  setenv("KVCAL", places.program.c_str(), 1);
  setenv("SOURCE", places.source.c_str(), 1);
  setenv("BUILD", places.build.c_str(), 1);
  setenv("CMAKE", places.cmake.c_str(), 1);
  setenv("LC_ALL", "C.UTF-8", 1);
  setenv("TERM", "dumb", 1);
  if (chdir(scratch.c_str()) != 0) _exit(125);
  execl("/bin/sh", "sh", beside(c, ".cmd").c_str(), static_cast<char*>(nullptr));
  _exit(125);
}

int wait_for(pid_t child) {
  const auto end = std::chrono::steady_clock::now() + kTimeLimit;
  for (auto nap = std::chrono::microseconds(500);;
       nap = std::min<decltype(nap)>(nap * 2, std::chrono::milliseconds(20))) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child)
      return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (std::chrono::steady_clock::now() > end) {
      kill(-child, SIGKILL);
      waitpid(child, &status, 0);
      return kTimedOut;
    }
    std::this_thread::sleep_for(nap);
  }
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool line_matches(std::string_view pattern, std::string_view line) {
  // Greedy matching with one point to return to: a later * may take over from an earlier one, never the reverse.
  size_t p = 0, i = 0, star = std::string_view::npos, taken = 0;
  while (i < line.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = i;
    } else if (p < pattern.size() && pattern[p] == line[i]) {
      ++p;
      ++i;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      i = ++taken;
    } else {
      return false;
    }
  }
  return pattern.substr(p).find_first_not_of('*') == std::string_view::npos;
}

}  // namespace

std::vector<Case> find_cases(const fs::path& folder) {
  std::vector<Case> cases;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".cmd") continue;
    const fs::path stem = fs::path(entry.path()).replace_extension();
    cases.push_back({stem.lexically_relative(folder).generic_string(), stem});
  }
  std::sort(cases.begin(), cases.end(), [](const Case& a, const Case& b) { return a.name < b.name; });
  return cases;
}

Outcome run(const Case& c, const Places& places) {
  const ScratchFolder scratch, outputs;
  const std::set<std::string> before = files_of_tree(places.source);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) become_shell(c, places, scratch.path(), outputs.path());
  Outcome outcome = {
      wait_for(child), read(outputs.path() / "out"), read(outputs.path() / "err"), {}, recorded_in(outputs.path())};
  std::ranges::set_difference(files_of_tree(places.source), before, std::back_inserter(outcome.left_in_tree));
  for (std::string* text : {&outcome.out, &outcome.err}) {
    replace_all(*text, scratch.path().string(), "$SCRATCH");
    // The build lies inside the tree.
    replace_all(*text, places.build.string(), "$BUILD");
    replace_all(*text, places.source.string(), "$SOURCE");
  }
  return outcome;
}

// The last line of a command may say it: "# exits 2".
constexpr std::string_view kExits = "# exits ";

Outcome expected(const Case& c) {
  const std::string command = read(beside(c, ".cmd"));
  const size_t at = command.rfind(kExits);
  const int exit = at == std::string::npos ? 0 : std::stoi(command.substr(at + kExits.size()));
  return {exit, read(beside(c, ".stdout")), read(beside(c, ".stderr")), {}, {}};
}

bool matches(const std::string& pattern, const std::string& text) {
  const std::vector<std::string> want = lines_of(pattern), have = lines_of(text);
  // reachable[i]: the pattern lines so far can have used up the first i lines.
  std::vector<bool> reachable(have.size() + 1, false);
  reachable[0] = true;
  for (const std::string& line : want) {
    std::vector<bool> next(have.size() + 1, false);
    for (size_t i = 0; i <= have.size(); ++i) {
      if (line == "...")
        next[i] = reachable[i] || (i > 0 && next[i - 1]);
      else if (i > 0)
        next[i] = reachable[i - 1] && line_matches(line, have[i - 1]);
    }
    reachable = std::move(next);
  }
  return reachable.back();
}

void update(const Case& c, const Outcome& outcome) {
  const Outcome before = expected(c);
  const auto write = [&](const char* extension, const std::string& text) {
    if (text.empty())
      fs::remove(beside(c, extension));
    else
      std::ofstream(beside(c, extension), std::ios::binary) << text;
  };
  if (before.exit != outcome.exit) {
    std::string command = read(beside(c, ".cmd"));
    command = command.substr(0, command.rfind(kExits));
    if (outcome.exit != 0) command += std::string(kExits) + std::to_string(outcome.exit) + "\n";
    write(".cmd", command);
  }
  if (!matches(before.out, outcome.out)) write(".stdout", outcome.out);
  if (!matches(before.err, outcome.err)) write(".stderr", outcome.err);
}

}  // namespace kvcal::cli
