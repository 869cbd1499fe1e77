#include "emulator/race_findings.h"

#include <link.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <sstream>

namespace emulator::race {
namespace {

/// Where the program was loaded: the first of what the loader lists. A linker's symbol would not do in a library.
const char* program_begin() {
  const char* begin = nullptr;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        *static_cast<const char**>(found) = reinterpret_cast<const char*>(info->dlpi_addr);
        return 1;
      },
      &begin);
  return begin;
}
const char* const kProgram = program_begin();

/// What addr2line prints of our own lines: "kernels/norm.cu:88 (discriminator 3)" -> "norm.cu:88"; else nothing.
std::string line_of_the_tree(const std::string& printed) {
  for (const std::string folder : {"kernels/", "tests/emulator/race_"}) {
    const size_t at = printed.rfind(folder);
    if (at == std::string::npos) continue;
    const size_t name = printed.rfind('/', at + folder.size() - 1) + 1;
    const std::string line = printed.substr(folder == "kernels/" ? at + folder.size() : name);
    return line.substr(0, line.find(' '));
  }
  return "";
}

void run_addr2line(const std::vector<uint32_t>& sites, const std::function<void(const std::string&)>& line) {
  std::ostringstream command;
  command << "addr2line -a -i -e '" << std::filesystem::read_symlink("/proc/self/exe").string() << "'";
  for (const uint32_t site : sites) command << " 0x" << std::hex << site - 1;  // within the call, not behind it
  command << " 2>/dev/null";
  FILE* const pipe = popen(command.str().c_str(), "r");
  if (!pipe) return;
  char buffer[4096];
  while (std::fgets(buffer, sizeof(buffer), pipe)) line(std::string(buffer, std::strcspn(buffer, "\n")));
  pclose(pipe);
}

std::string who(const Actor& a) {
  return "thread " + std::to_string(a.thread) + " of block " + std::to_string(a.block);
}

const char* verb(Access kind) {
  constexpr const char* kVerbs[] = {"reads", "writes", "changes atomically", "reads atomically"};
  return kVerbs[static_cast<size_t>(kind)];
}

std::string relation(const Actor& a, const Actor& b) {
  if (a.block != b.block) return "no order between blocks";
  return a.thread / 32 == b.thread / 32 ? "no __syncwarp() between" : "no __syncthreads() between";
}

std::string text(const Finding& f, const std::string& now, const std::string& before) {
  std::ostringstream out;
  out << f.kernel << ": " << (f.shared ? "shared" : "global") << " memory, byte " << f.byte << ": " << who(f.now) << " "
      << verb(f.now.kind) << " at " << now;
  switch (f.fault) {
    case Fault::Race:
      out << " what " << who(f.before) << " " << verb(f.before.kind) << " at " << before << ", "
          << relation(f.now, f.before);
      break;
    case Fault::CopyInFlight:
      out << " where the asynchronous copy of " << who(f.before) << " at " << before << " has not been waited for";
      break;
    case Fault::SourceOfCopy:
      out << " asynchronously what " << who(f.before) << " writes at " << before << " before the copy is waited for";
      break;
    case Fault::Uninitialized:
      out << " what no thread of the block has written";
      break;
  }
  return out.str();
}

}  // namespace

uint32_t site_of(const void* code) { return static_cast<uint32_t>(static_cast<const char*>(code) - kProgram); }

std::vector<std::string> lines_of(const std::vector<uint32_t>& sites) {
  std::vector<std::string> lines(sites.size());
  size_t next = 0;
  run_addr2line(sites, [&](const std::string& printed) {
    if (printed.starts_with("0x")) {
      ++next;
    } else if (const std::string line = line_of_the_tree(printed); !line.empty() && next > 0 && next <= lines.size()) {
      std::string& chain = lines[next - 1];
      chain = line + (chain.empty() ? "" : " via " + chain);
    }
  });
  for (std::string& line : lines)
    if (line.empty()) line = "?";
  return lines;
}

std::string misalignment(const Actor& now, size_t alignment) {
  return who(now) + " uses an address that is not a multiple of " + std::to_string(alignment) + " at " +
         lines_of({now.site})[0];
}

void Findings::add(const Finding& f) {
  const auto [it, fresh] = seen_.try_emplace({f.fault, f.kernel, f.now.site, f.before.site}, first_.size());
  if (fresh) {
    first_.push_back(f);
    times_.push_back(0);
  }
  ++times_[it->second];
}

std::vector<std::string> Findings::take(size_t most) {
  const size_t n = std::min(most, first_.size());
  std::vector<uint32_t> sites;
  for (size_t i = 0; i < n; ++i) sites.insert(sites.end(), {first_[i].now.site, first_[i].before.site});
  const std::vector<std::string> lines = lines_of(sites);
  std::vector<std::string> all;
  for (size_t i = 0; i < n; ++i) {
    const std::string times = times_[i] > 1 ? "; " + std::to_string(times_[i]) + " times" : "";
    all.push_back(text(first_[i], lines[2 * i], lines[2 * i + 1]) + times);
  }
  if (first_.size() > n) all.push_back("and " + std::to_string(first_.size() - n) + " more findings");
  *this = {};
  return all;
}

}  // namespace emulator::race
