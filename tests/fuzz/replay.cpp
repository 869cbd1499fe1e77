// Runs a fuzz entry over every file of a corpus folder, without clang: replay CORPUS... A crash names the file it is
// at. Each input is also run cut short at many places, so that even a fresh seed says something about broken files. One
// that takes more than a reader may is an error, as under libFuzzer (.ci/fuzz.sh); one that hangs is ended.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/read_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

// For one input whole, on a machine that does other things too; with all of its cuts; and peaks of the process, in KiB.
constexpr double kMostSeconds = 5;
constexpr unsigned kHang = 30;
#ifdef KVCAL_SANITIZED
constexpr long kMostMemory = 2 << 20;  // what is freed waits in quarantine
#else
constexpr long kMostMemory = 256 << 10;
#endif
constexpr size_t kMostBytes = size_t{1} << 20, kCuts = 16;

long peak() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

void on_hang(int) {
  constexpr char kText[] = "does not end\n";
  if (::write(STDERR_FILENO, kText, sizeof kText - 1) > 0) ::_exit(1);
  ::_exit(1);
}

// From a buffer of exactly this size, so that a sanitizer sees a read beyond it.
void run(const std::string& bytes, size_t size) {
  const std::vector<uint8_t> exact(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: replay CORPUS...\n"), 2;
  std::vector<std::filesystem::path> files;
  for (int i = 1; i < argc; ++i)
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  if (files.empty()) return std::fprintf(stderr, "%s: no inputs\n", argv[1]), 1;
  std::signal(SIGALRM, on_hang);
  for (const auto& file : files) {
    // Unbuffered, before the input runs: the last name printed is the one that crashed.
    std::fprintf(stderr, "%s\n", file.filename().c_str());
    ::alarm(kHang);
    const auto start = std::chrono::steady_clock::now();
    const std::string bytes = kvcal::read_file(file, kMostBytes);
    run(bytes, bytes.size());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (took.count() > kMostSeconds) return std::fprintf(stderr, "took %.1f s\n", took.count()), 1;
    for (size_t cut = 0; cut < kCuts; ++cut) run(bytes, bytes.size() * cut / kCuts);
    if (peak() > kMostMemory) return std::fprintf(stderr, "took %ld KiB\n", peak()), 1;
  }
  std::fprintf(stderr, "%zu inputs\n", files.size());
  return 0;
}
