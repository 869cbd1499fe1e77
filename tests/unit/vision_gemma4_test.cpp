// How many squares Gemma 4 makes of a picture, as the reference framework's get_aspect_ratio_preserving_size gives
// them.
#include <gtest/gtest.h>

#include "vision/gemma4_processor.h"

namespace kvcal {
namespace {

constexpr PatchShape kShape{16, 3, 1, kGemma4Processor};

const Json& published() {
  static const Json settings = {{"image_processor_type", "Gemma4ImageProcessor"},
                                {"do_normalize", false},
                                {"max_soft_tokens", 280},
                                {"patch_size", 16},
                                {"pooling_kernel_size", 3},
                                {"resample", 3}};
  return settings;
}

Json with(const char* key, const Json& value) {
  Json settings = published();
  settings[key] = value;
  return settings;
}

struct Cut {
  ImageSize size;
  PatchGrid grid;
};

void expect_cuts(const Json& settings, std::initializer_list<Cut> cuts) {
  const PatchRules rules = read_gemma4_processor(settings, kShape);
  for (const Cut& cut : cuts) {
    const PatchGrid grid = rules.grid_of(cut.size);
    EXPECT_TRUE(grid.height == cut.grid.height && grid.width == cut.grid.width)
        << cut.size.height << " x " << cut.size.width << " became " << grid.height << " x " << grid.width;
  }
}

TEST(Gemma4Processor, fills_the_squares_that_there_are_tokens_for) {
  for (const Json& settings : {published(), Json::object()})
    expect_cuts(settings, {{{480, 640}, {42, 57}},
                           {{1080, 1920}, {36, 66}},
                           {{1, 1}, {48, 48}},
                           {{3000, 4000}, {42, 57}},
                           {{767, 769}, {48, 48}},
                           {{816, 768}, {51, 48}}});
  expect_cuts(with("max_soft_tokens", 1120), {{{480, 640}, {84, 114}}, {{6000, 4000}, {120, 81}}});
}

TEST(Gemma4Processor, makes_a_line_of_a_slender_picture) {
  expect_cuts(published(), {{{100, 1749}, {12, 207}},
                            {{100, 1751}, {9, 210}},
                            {{48, 13440}, {3, 840}},
                            {{47, 13440}, {3, 840}},
                            {{1, 65535}, {3, 840}},
                            {{65535, 300}, {741, 3}}});
  expect_cuts(with("max_soft_tokens", 1120), {{{2, 2241}, {3, 3360}}, {{2, 2239}, {3, 3357}}});
}

TEST(Gemma4Processor, takes_colors_from_minus_1_to_1) {
  const PatchRules rules = read_gemma4_processor(published(), kShape);
  for (const ColorTable& color : rules.colors) {
    EXPECT_EQ(color[0], -1.0f);
    EXPECT_EQ(color[51], 2 * (51 * 0.00392156862745098f - 0.5f));
    EXPECT_EQ(color[255], 1.0f);
  }
}

TEST(Gemma4Processor, refuses_what_it_does_not_know) {
  const auto refused = [](const char* key, const Json& value) -> std::string {
    try {
      read_gemma4_processor(with(key, value), kShape);
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  };
  EXPECT_EQ(refused("max_soft_tokens", 256), "max_soft_tokens is 256, expected 70, 140, 280, 560 or 1120");
  EXPECT_EQ(refused("do_normalize", true), "do_normalize is true, expected false");
  EXPECT_EQ(refused("do_rescale", false), "do_rescale is false, expected true");
  EXPECT_EQ(refused("resample", 2), "resample is 2, expected 3 (bicubic)");
  EXPECT_EQ(refused("patch_size", 14), "patch_size is 14, the model's tower has 16");
  EXPECT_EQ(refused("pooling_kernel_size", 2), "pooling_kernel_size is 2, the model's tower has 3");
  EXPECT_EQ(refused("image_processor_type", "Gemma3ImageProcessor"),
            "image_processor_type is 'Gemma3ImageProcessor', expected Gemma4ImageProcessor");
}

}  // namespace
}  // namespace kvcal
