// Linked into a test program, makes it run nvcc's kernels: those of the build, or of the folder KVCAL_PTX in the
// environment (mutants.py). A run of all cases ends with what the kernels wanted of shared memory, held against the
// table of bank conflicts in kernels/README.md; KVCAL_PTX_BANKS prints all of it.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>

#include "ptx/substitute.h"

namespace {

constexpr double kMost = 1.02;  // of what the table says

/// "| `grouped_tile_kernel` | 1.25 |"
std::map<std::string, double> stated_conflicts() {
  std::ifstream table(KVCAL_SOURCE_DIR "/kernels/README.md");
  const std::regex row("\\| `(\\w+)` \\| ([0-9.]+) \\|");
  std::map<std::string, double> stated;
  std::smatch found;
  for (std::string line; std::getline(table, line);)
    if (std::regex_match(line, found, row)) stated[found[1]] = std::stod(found[2]);
  return stated;
}

class Substitution final : public testing::Environment {
 public:
  void SetUp() override {
    const char* folder = std::getenv("KVCAL_PTX");
    uses_ = ptx::take_launches(folder ? folder : KVCAL_PTX_FOLDER);
  }

  void TearDown() override {
    const std::map<std::string, double> stated = stated_conflicts();
    const bool whole = GTEST_FLAG_GET(filter) == "*" && !std::getenv("GTEST_TOTAL_SHARDS") && !std::getenv("KVCAL_PTX");
    for (const auto& [name, use] : *uses_) {
      if (use.needed == 0) continue;
      const double ratio = static_cast<double>(use.taken) / static_cast<double>(use.needed);
      if (std::getenv("KVCAL_PTX_BANKS")) std::printf("| `%s` | %.2f |\n", name.c_str(), ratio);
      if (const auto row = stated.find(name); whole && row != stated.end() && ratio > kMost * row->second)
        ADD_FAILURE() << name << " takes " << ratio << " times what its accesses to shared memory need at least, "
                      << row->second << " in the table of kernels/README.md";
    }
  }

 private:
  std::shared_ptr<const ptx::BankUses> uses_;
};

const testing::Environment* const kSubstitution = testing::AddGlobalTestEnvironment(new Substitution);

}  // namespace
