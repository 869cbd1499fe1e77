// cuDNN accepts the graphs that the backend makes, for a Hopper GPU that need not be there. What they compute is
// checked on a GPU: by the parity tests, and by the backend itself at the first use of each.
#include <gtest/gtest.h>

#include <ostream>
#include <regex>
#include <string>

#include "base/error.h"
#include "kernels/cudnn/cudnn_attention.h"

namespace kvcal::cuda {

void PrintTo(const AttentionPlan& plan, std::ostream* out) { *out << str(plan); }

namespace {

class CudnnGraph : public testing::TestWithParam<AttentionPlan> {
 protected:
  void SetUp() override {
    try {
      check_cudnn_graph({1, 64, 64, 1, 1, 64, 64, 0, 1.0f, false}, 90);
    } catch (const Error& e) {
      GTEST_SKIP() << e.what();
    }
  }
};

TEST(CudnnAttention, SaysWithoutAGpuThatItIsNotUsed) {
  const auto library = make_cudnn_attention();
  const std::string identity = library->identity();
  if (identity.empty()) {
    ASSERT_EQ(library->notes().size(), 1U);
    EXPECT_NE(library->notes()[0].find("cuDNN is not used: "), std::string::npos) << library->notes()[0];
  } else {
    EXPECT_TRUE(std::regex_match(identity, std::regex("cudnn-[0-9.]+"))) << identity;
  }
}

TEST_P(CudnnGraph, IsAccepted) { EXPECT_EQ(check_cudnn_graph(GetParam(), 90), ""); }

constexpr float kScale = 0.088f;
INSTANTIATE_TEST_SUITE_P(Plans, CudnnGraph,
                         testing::Values(AttentionPlan{1, 2048, 2048, 8, 8, 64, 64, 0, kScale, false},
                                         AttentionPlan{32, 2048, 2048, 32, 8, 128, 128, 0, kScale, false},
                                         AttentionPlan{64, 256, 256, 16, 2, 256, 256, 0, kScale, false},
                                         AttentionPlan{4, 4096, 4096, 32, 8, 128, 128, 1024, kScale, false},
                                         AttentionPlan{4, 2048, 2048, 32, 32, 192, 128, 0, kScale, false},
                                         AttentionPlan{2, 128, 128, 3, 1, 72, 72, 33, kScale, false},
                                         AttentionPlan{1, 2048, 8192, 32, 8, 128, 128, 0, kScale, true},
                                         AttentionPlan{1, 2048, 8192, 16, 4, 256, 256, 512, kScale, true},
                                         AttentionPlan{1, 64, 512, 8, 2, 64, 64, 1, kScale, true},
                                         AttentionPlan{8, 1 << 17, 1 << 17, 64, 8, 128, 128, 0, kScale, false}));

void expect_refused(const AttentionPlan& plan, int sm_version, const std::string& why) {
  const std::string said = check_cudnn_graph(plan, sm_version);
  EXPECT_NE(said.find(why), std::string::npos) << said;
}

TEST_F(CudnnGraph, OthersAreRefusedWithAReason) {
  expect_refused({1, 64, 64, 8, 8, 60, 60, 0, kScale, false}, 90, "multiple of 8");
  expect_refused({1, 64, 64, 8, 3, 64, 64, 0, kScale, false}, 90, "group-query");
  expect_refused({1, 64, 64, 8, 8, 64, 64, 0, kScale, false}, 75, "SM80");
}

}  // namespace
}  // namespace kvcal::cuda
