#include <gtest/gtest.h>

#include "prefill/memory_plan.h"

namespace kvcal {
namespace {

ModelSpec mixture(double k, double n_experts) {
  ModelSpec spec;
  spec.layers.resize(3);
  spec.layers[1].expert_share = k / n_experts;
  return spec;
}

TEST(UsefulRows, AnExpertGetsAPanelOfThemAndADenseModelWhatItsProductsNeed) {
  EXPECT_EQ(useful_rows(ModelSpec{}), 2048);
  EXPECT_EQ(useful_rows(mixture(1, 1)), 2048);
  EXPECT_EQ(useful_rows(mixture(2, 8)), 2048);   // 512 for each
  EXPECT_EQ(useful_rows(mixture(4, 64)), 4096);  // 256
  EXPECT_EQ(useful_rows(mixture(8, 256)), 8192);
  EXPECT_EQ(useful_rows(mixture(8, 512)), 8192);  // no more: memory
}

}  // namespace
}  // namespace kvcal
