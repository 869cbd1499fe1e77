// How pictures are cut: sizes as the reference framework's smart_resize gives them, and settings that are not known.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "vision/patch_processor.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

class PatchProcessorTest : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(folder_); }

  PatchProcessor load(const Json& settings, const PatchShape& shape, const char* file = "preprocessor_config.json") {
    fs::create_directories(folder_);
    std::ofstream(folder_ / file) << settings.dump();
    return PatchProcessor::load(folder_, shape);
  }

  std::string refusal(const Json& settings, const PatchShape& shape = {14, 2, 2, kQwen2VlProcessor}) {
    try {
      load(settings, shape);
    } catch (const Error& e) {
      const std::string message = e.what();
      return message.substr(std::min(message.size(), message.find("': ") + 3));
    }
    return "none";
  }

  const fs::path folder_ = fs::path(testing::TempDir()) / ("kvcal_patches_" + std::to_string(getpid()));
};

struct Cut {
  ImageSize size;
  PatchGrid grid;
};

void expect_cuts(const PatchProcessor& processor, std::initializer_list<Cut> cuts) {
  for (const Cut& cut : cuts) {
    const PatchGrid grid = processor.grid_of(cut.size);
    EXPECT_TRUE(grid.height == cut.grid.height && grid.width == cut.grid.width)
        << cut.size.height << " x " << cut.size.width << " became " << grid.height << " x " << grid.width;
  }
}

TEST_F(PatchProcessorTest, cuts_as_the_reference) {
  const PatchShape small{4, 2, 2, kQwen2VlProcessor};
  const Json settings = {{"patch_size", 4}, {"size", {{"shortest_edge", 320}, {"longest_edge", 768}}}};
  expect_cuts(load(settings, small), {{{20, 20}, {6, 6}},
                                      {{1, 1}, {6, 6}},
                                      {{47, 61}, {6, 6}},
                                      {{1000, 9}, {72, 2}},
                                      {{9, 1000}, {2, 72}},
                                      {{200, 1}, {64, 2}},
                                      {{28, 27}, {8, 6}},
                                      {{24, 32}, {6, 8}},
                                      {{3000, 4000}, {6, 8}}});
  const Json older = {{"image_processor", {{"patch_size", 16}, {"min_pixels", 65536}, {"max_pixels", 16777216}}}};
  expect_cuts(load(older, {16, 2, 2, kQwen2VlProcessor}, "processor_config.json"), {{{480, 640}, {30, 40}},
                                                                                    {{1080, 1920}, {68, 120}},
                                                                                    {{48, 640}, {6, 60}},
                                                                                    {{6000, 4000}, {312, 208}},
                                                                                    {{16, 16}, {16, 16}}});
}

TEST_F(PatchProcessorTest, refuses_what_it_does_not_know) {
  EXPECT_EQ(refusal(Json::object()), "none");
  EXPECT_EQ(refusal({{"image_processor_type", "Qwen2VLImageProcessorFast"}}), "none");
  EXPECT_EQ(refusal({{"image_processor_type", "SiglipImageProcessor"}}),
            "image_processor_type is 'SiglipImageProcessor', expected Qwen2VLImageProcessor");
  EXPECT_EQ(refusal({{"resample", 2}}), "resample is 2, expected 3 (bicubic)");
  EXPECT_EQ(refusal({{"do_resize", false}}), "do_resize is false, expected true");
  EXPECT_EQ(refusal({{"patch_size", 16}}), "patch_size is 16, the model's tower has 14");
  EXPECT_EQ(refusal({{"max_pixels", 0}}), "max_pixels is 0, expected 1 to 67108864");
  EXPECT_EQ(refusal({{"image_std", {1, 0, 1}}}), "image_std holds 0");
  EXPECT_EQ(refusal({{"image_mean", {1, 2}}}), "image_mean is not a list of three numbers");
  try {
    load(Json::object(), {14, 2, 2, kQwen2VlProcessor}).grid_of({201, 1});
    FAIL() << "a line of pixels is accepted";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "is more than 200 times as long as wide");
  }
}

TEST_F(PatchProcessorTest, makes_squares_for_gemma_3) {
  const PatchShape shape{14, 4, 1, kGemma3Processor, 64};
  const Json published = {{"image_processor_type", "Gemma3ImageProcessor"},
                          {"do_convert_rgb", nullptr},
                          {"do_pan_and_scan", nullptr},
                          {"resample", 2},
                          {"size", {{"height", 896}, {"width", 896}}}};
  expect_cuts(load(published, shape), {{{20, 20}, {64, 64}}, {{9, 1000}, {64, 64}}});
  EXPECT_EQ(load(published, shape).n_tokens({64, 64}), 256);
  const auto refused = [&](const char* key, const Json& value) {
    Json other = published;
    other[key] = value;
    return refusal(other, shape);
  };
  EXPECT_EQ(refused("do_pan_and_scan", true), "do_pan_and_scan is true: pictures that are cut into crops are not read");
  EXPECT_EQ(refused("resample", 3), "resample is 3, expected 2 (bilinear)");
  EXPECT_EQ(refused("size", {{"height", 896}, {"width", 448}}), "size.width is 448, the model's tower has 896");
  EXPECT_EQ(refused("image_processor_type", "Qwen2VLImageProcessor"),
            "image_processor_type is 'Qwen2VLImageProcessor', expected Gemma3ImageProcessor");
}

}  // namespace
}  // namespace kvcal
