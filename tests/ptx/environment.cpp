// Linked into a test program, makes it run nvcc's kernels: those of the build, or of the folder KVCAL_PTX in the
// environment (mutants.py).
#include <gtest/gtest.h>

#include <cstdlib>

#include "ptx/substitute.h"

namespace {

class Substitution final : public testing::Environment {
 public:
  void SetUp() override {
    const char* folder = std::getenv("KVCAL_PTX");
    ptx::take_launches(folder ? folder : KVCAL_PTX_FOLDER);
  }
};

const testing::Environment* const kSubstitution = testing::AddGlobalTestEnvironment(new Substitution);

}  // namespace
