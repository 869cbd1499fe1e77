// Which way the experts of a layer lie when all of them are in one tensor.
#include <gtest/gtest.h>

#include "model/layers/sparse_moe.h"
#include "unit/checkpoint_folder.h"

namespace kvcal {
namespace {

constexpr int64_t kExperts = 2, kWidth = 4;

/// Whether expert 1 of down_proj [2, 4, 4] is given transposed, beside a gate_up_proj of this shape for `ffn` rows.
bool turns_square_down(const TestTensor& gate_up, int64_t ffn, bool otherwise) {
  const TempFolder folder;
  folder.write("config.json", "{}");
  write_tensors(folder / "model.safetensors", {gate_up, {"down_proj", DType::BF16, {kExperts, kWidth, kWidth}}});
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  const WeightBinder w(checkpoint);
  const TensorInfo* found = w.info("gate_up_proj");
  FusedWeights both = load_fused_weights(w, {"gate_up_proj", {kExperts, 2 * ffn, kWidth}},
                                         {"down_proj", {kExperts, kWidth, kWidth}}, otherwise);
  EXPECT_EQ(str(both.gate_up.expert(1).shape), str(Shape{2 * ffn, kWidth})) << str(*found);
  const auto* stored = checkpoint.tensor("down_proj").as<uint16_t>() + kWidth * kWidth;
  const Tensor given = both.down.expert(1);
  const bool turned = given.as<uint16_t>()[1] == stored[kWidth];
  EXPECT_EQ(given.as<uint16_t>()[1], stored[turned ? kWidth : 1]);
  return turned;
}

TEST(FusedExperts, ASquareTensorLiesAsTheOther) {
  const TestTensor plain{"gate_up_proj", DType::BF16, {kExperts, 8, kWidth}},
      turned{"gate_up_proj", DType::BF16, {kExperts, kWidth, 8}};
  for (const bool otherwise : {false, true}) {
    EXPECT_FALSE(turns_square_down(plain, 4, otherwise));
    EXPECT_TRUE(turns_square_down(turned, 4, otherwise));
    EXPECT_EQ(turns_square_down({"gate_up_proj", DType::BF16, {kExperts, kWidth, kWidth}}, 2, otherwise), otherwise);
  }
}

}  // namespace
}  // namespace kvcal
