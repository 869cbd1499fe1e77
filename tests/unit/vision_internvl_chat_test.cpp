// The tiles of InternVLChatModel, whose config alone says how pictures are cut.
#include <gtest/gtest.h>

#include "vision/patch_processor.h"

namespace kvcal {
namespace {

PatchProcessor chat(const TileLimits& tiles, int64_t size = 14, int64_t side = 32) {
  return PatchProcessor::load("no such folder", {size, 2, 1, kInternVlChatProcessor, side, {}, tiles});
}

int64_t n_tiles(const TileLimits& tiles, const ImageSize& size) { return chat(tiles).grid_of(size).height / 32; }

TEST(InternVlChatProcessor, cuts_as_many_tiles_as_vllm) {
  const TileLimits usual = {1, 12, true};
  EXPECT_EQ(n_tiles(usual, {480, 640}), 13);
  EXPECT_EQ(n_tiles(usual, {448, 448}), 1);
  EXPECT_EQ(n_tiles(usual, {896, 896}), 5);
  EXPECT_EQ(n_tiles(usual, {100, 5000}), 13);
  EXPECT_EQ(n_tiles({1, 12, false}, {480, 640}), 12) << "without the whole picture";
  EXPECT_EQ(n_tiles({1, 6, true}, {480, 640}), 7);
  EXPECT_EQ(n_tiles({}, {480, 640}), 1) << "the size of pictures is not dynamic";
}

TEST(InternVlChatProcessor, takes_the_colors_of_imagenet) {
  const std::vector<float> patches = chat({}, 1, 2).patches_of({{2, 2}, std::vector<uint8_t>(12, 51)});
  const float mean[] = {0.485f, 0.456f, 0.406f}, deviation[] = {0.229f, 0.224f, 0.225f};
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(patches[i], (51 / 255.0f - mean[i % 3]) / deviation[i % 3]) << i;
}

TEST(InternVlChatProcessor, refuses_limits_that_no_picture_fits) {
  const auto refusal = [](const TileLimits& tiles) -> std::string {
    try {
      chat(tiles);
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  };
  const std::string begin = "reading the image processor of 'no such folder': ";
  EXPECT_EQ(refusal({1, 0, true}), begin + "max_dynamic_patch is 0, expected 1 to 256");
  EXPECT_EQ(refusal({1, 1000, true}), begin + "max_dynamic_patch is 1000, expected 1 to 256");
  EXPECT_EQ(refusal({7, 6, true}), begin + "min_dynamic_patch is 7, expected 1 to 6");
}

}  // namespace
}  // namespace kvcal
