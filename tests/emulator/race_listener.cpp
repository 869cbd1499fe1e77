// Linked into a test program whose kernels are watched: what the race checker finds fails the test in which it was
// found. The program's results in JSON tell which barriers each test reached ("barriers": offsets in the program), and
// KVCAL_EMULATOR_WITHOUT=OFFSET,OFFSET... leaves some out: see mutate_barriers.py.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "emulator/race.h"

namespace emulator::race {
namespace {

std::set<uint32_t> offsets_in(const std::string& list) {
  std::set<uint32_t> offsets;
  std::istringstream in(list);
  for (std::string offset; std::getline(in, offset, ',');)
    offsets.insert(static_cast<uint32_t>(std::stoul(offset, nullptr, 16)));
  return offsets;
}

std::string list_of(const std::set<uint32_t>& offsets) {
  std::ostringstream out;
  for (const uint32_t offset : offsets) out << (out.tellp() > 0 ? "," : "") << std::hex << offset;
  return out.str();
}

class Listener final : public testing::EmptyTestEventListener {
 public:
  void OnTestProgramStart(const testing::UnitTest&) override {
    if (const char* without = std::getenv("KVCAL_EMULATOR_WITHOUT")) leave_out(offsets_in(without));
  }
  void OnTestEnd(const testing::TestInfo&) override {
    for (const std::string& finding : take_findings()) ADD_FAILURE() << "race check: " << finding;
    testing::Test::RecordProperty("barriers", list_of(take_barriers()));
  }
  void OnTestProgramEnd(const testing::UnitTest& tests) override {
    if (n_accesses() == 0 && tests.test_to_run_count() > 0) {
      std::puts("the race check saw no access: are the kernels compiled for it?");
      std::exit(1);
    }
  }
};

const bool kListens = [] {
  testing::UnitTest::GetInstance()->listeners().Append(new Listener);
  return true;
}();

}  // namespace
}  // namespace emulator::race
