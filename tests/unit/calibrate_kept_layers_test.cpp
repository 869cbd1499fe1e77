// Where a process keeps the ends of layers for its next run.
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "calibrate/kept_layers.h"

namespace kvcal {
namespace {

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

Json identity(const std::string& config) { return {{"model", {{"weights_fingerprint", ""}, {"config", config}}}}; }

MemoryPlan host_plan(uint64_t room) {
  MemoryPlan plan;
  plan.budget = room;
  return plan;
}

class KeptLayersTest : public testing::Test {
 protected:
  const OpenedModel model_{std::filesystem::path(KVCAL_SOURCE_DIR) / "datasets/demo/natural"};  // 8 layers
};

TEST_F(KeptLayersTest, AreAsManyAsHalfOfTheRoomHolds) {
  KeptLayers kept;
  kept.begin(model_, identity("a"), host_plan(2 * 4 * 100), 100);
  EXPECT_FALSE(kept.keeps(1));
  EXPECT_TRUE(kept.keeps(2));
  EXPECT_TRUE(kept.keeps(8));
}

// A model that needs more leaves less.
TEST_F(KeptLayersTest, AreSettledAnewWhereTheFirstLayerRuns) {
  KeptLayers kept;
  kept.begin(model_, identity("a"), host_plan(2 * 8 * 100), 100);
  EXPECT_TRUE(kept.keeps(1));
  kept.begin(model_, identity("b"), host_plan(0), 100);
  for (int layer = 1; layer <= 8; ++layer) EXPECT_FALSE(kept.keeps(layer)) << layer;
  kept.begin(model_, identity("c"), host_plan(2 * 8 * 100), 100);
  EXPECT_TRUE(kept.keeps(1));
}

TEST_F(KeptLayersTest, LeaveRoomForPinnedMemory) {
  MemoryPlan plan;
  plan.on_device = true;
  const auto keeps = [&] {
    KeptLayers kept;
    kept.begin(model_, identity("a"), plan, 100);
    return kept.keeps(1);
  };
  EXPECT_TRUE(keeps());
  plan.host = kMost;
  EXPECT_FALSE(keeps());
  // Of one memory with the device they have what its plan leaves.
  plan.one_memory = true;
  plan.host = 0;
  plan.budget = 2 * 8 * 100;
  EXPECT_TRUE(keeps());
  plan.weights = 2 * 8 * 100;
  EXPECT_FALSE(keeps());
}

}  // namespace
}  // namespace kvcal
