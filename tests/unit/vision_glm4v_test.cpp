// How large GLM-4.1V makes a picture, as the reference framework's smart_resize of this class gives it.
#include <gtest/gtest.h>

#include "vision/qwen2_vl_processor.h"

namespace kvcal {
namespace {

constexpr PatchShape kShape{14, 2, 2, kGlm4vProcessor}, kSmall{4, 2, 2, kGlm4vProcessor};

struct Cut {
  ImageSize size;
  PatchGrid grid;
};

void expect_cuts(const PatchRules& rules, std::initializer_list<Cut> cuts) {
  for (const Cut& cut : cuts) {
    const PatchGrid grid = rules.grid_of(cut.size);
    EXPECT_TRUE(grid.height == cut.grid.height && grid.width == cut.grid.width)
        << cut.size.height << " x " << cut.size.width << " became " << grid.height << " x " << grid.width;
  }
}

const Json kOfSmall = {{"patch_size", 4}, {"size", {{"shortest_edge", 576}, {"longest_edge", 1600}}}};

TEST(Glm4vProcessor, counts_the_pixels_of_all_frames) {
  const Json published = {{"image_processor_type", "Glm4vImageProcessor"},
                          {"patch_size", 14},
                          {"size", {{"shortest_edge", 12544}, {"longest_edge", 9633792}}}};
  expect_cuts(read_glm4v_processor(published, kShape), {{{3000, 4000}, {134, 180}}, {{6000, 4000}, {192, 128}}});
  Json newer = published;
  newer["image_processor_type"] = "Glm46VImageProcessorFast";
  expect_cuts(read_glm4v_processor(newer, kShape), {{{3000, 4000}, {134, 180}}});
  expect_cuts(read_glm4v_processor(Json::object(), kShape),
              {{{480, 640}, {34, 46}}, {{1080, 1920}, {78, 138}}, {{3000, 4000}, {150, 200}}, {{56, 112}, {4, 8}}});
  expect_cuts(read_glm4v_processor(kOfSmall, kSmall), {{{47, 61}, {6, 8}}, {{11, 16}, {4, 6}}});
}

TEST(Glm4vProcessor, lets_short_sides_grow_first) {
  expect_cuts(read_glm4v_processor(Json::object(), kShape),
              {{{1, 1}, {6, 6}}, {{27, 28}, {6, 6}}, {{9, 300}, {2, 66}}});
  const PatchRules small = read_glm4v_processor(kOfSmall, kSmall);
  expect_cuts(small, {{{7, 19}, {4, 8}}, {{1, 200}, {2, 100}}});
  EXPECT_THROW(small.grid_of({1, 201}), Error);
}

TEST(Glm4vProcessor, refuses_what_it_does_not_know) {
  const auto refused = [](const char* key, const Json& value) -> std::string {
    try {
      read_glm4v_processor({{key, value}}, kShape);
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  };
  EXPECT_EQ(refused("temporal_patch_size", 1), "temporal_patch_size is 1, the model's tower has 2");
  EXPECT_EQ(refused("merge_size", 1), "merge_size is 1, the model's tower has 2");
  EXPECT_EQ(refused("resample", 2), "resample is 2, expected 3 (bicubic)");
  EXPECT_EQ(refused("size", {{"height", 336}, {"width", 336}}),
            "size has no shortest_edge, and what it has is not read");
  EXPECT_EQ(refused("image_processor_type", "Qwen2VLImageProcessor"),
            "image_processor_type is 'Qwen2VLImageProcessor', expected Glm4vImageProcessor");
}

}  // namespace
}  // namespace kvcal
