// Linked into a test program, makes it run nvcc's kernels.
#include <gtest/gtest.h>

#include "ptx/substitute.h"

namespace {

class Substitution final : public testing::Environment {
 public:
  void SetUp() override { ptx::take_launches(KVCAL_PTX); }
};

const testing::Environment* const kSubstitution = testing::AddGlobalTestEnvironment(new Substitution);

}  // namespace
