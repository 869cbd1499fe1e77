// What a mixture of experts costs a device beside its products: a fixed number of launches, and no waiting.
#include <cstdlib>

#include "emulator/emulator.h"
#include "harness/emulated_ops.h"
#include "harness/uploading_ops.h"
#include "parity/op_fixture.h"

namespace kvcal::test {
namespace {

int64_t launches_so_far() {
  int64_t n = 0;
  for (const auto& [name, launched] : emulator::launches()) n += launched;
  return n;
}

class Experts {
 public:
  explicit Experts(int64_t n) : op_(emulated_cuda_ops(Precision::BF16)) {
    const Values w = random_values({8, 8}, DType::BF16, 1), logits = random_values({20, n}, DType::BF16, 2);
    for (int64_t e = 0; e < n; ++e) experts_.push_back(op_->load_glu({w, {}}, {w, {}}, {w, {}}));
    x_ = op_->upload(random_values({20, 8}, DType::BF16, 3));
    logits_ = op_->upload(logits);
    emulator::synchronize_all();
  }
  void run() { op_->experts(x_, op_->route(logits_, {.k = 2}), experts_); }

 private:
  std::unique_ptr<Ops> op_;
  std::vector<GluWeights> experts_;
  Tensor x_, logits_;
};

TEST(GroupedProduct, LaunchesDoNotGrowWithTheExperts) {
  const auto launches = [](int64_t n) {
    Experts experts(n);
    const int64_t before = launches_so_far();
    experts.run();
    emulator::synchronize_all();
    return launches_so_far() - before;
  };
  const int64_t few = launches(2);
  EXPECT_LE(few, 9);  // routing, four of the sort, two products, glu, sum
  EXPECT_EQ(launches(40), few);
}

/// Where the device has them; tests/ptx has not.
TEST(GroupedProduct, GroupsOfManyRowsTakeWarpgroups) {
  const auto launches = [](const char* kernel) {
    int64_t n = 0;
    for (const auto& [name, launched] : emulator::launches())
      if (name.find(kernel) != std::string::npos) n += launched;
    return n;
  };
  const int64_t before = launches("grouped_warpgroups_kernel"), tiles = launches("grouped_tile_kernel");
  const auto op = emulated_cuda_ops(Precision::BF16);
  const Values w = random_values({8, 8}, DType::BF16, 1);
  const std::vector<GluWeights> experts{op->load_glu({w, {}}, {w, {}}, {w, {}})};
  const Tensor logits = op->upload(random_values({256, 1}, DType::BF16, 2));
  op->experts(op->upload(random_values({256, 8}, DType::BF16, 3)), op->route(logits, {.k = 1}), experts);
  emulator::synchronize_all();
  const bool has = emulator::has_body("grouped_warpgroups_kernel");
  EXPECT_EQ(launches("grouped_warpgroups_kernel") - before, has ? 2 : 0);
  EXPECT_EQ(launches("grouped_tile_kernel") - tiles, has ? 0 : 2);
}

TEST(GroupedProduct, NobodyWaitsForTheDevice) {
  Experts experts(6);
  emulator::set_timing(emulator::Timing::Late);
  const int64_t before = launches_so_far();
  experts.run();
  EXPECT_EQ(launches_so_far(), before);
  emulator::synchronize_all();
  EXPECT_GT(launches_so_far(), before);
  if (!std::getenv("KVCAL_EMULATOR_TIMING")) emulator::set_timing(emulator::Timing::Immediate);
}

}  // namespace
}  // namespace kvcal::test
