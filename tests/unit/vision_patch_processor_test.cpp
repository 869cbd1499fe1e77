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
  try {  // a tower whose patches are larger than any picture
    load({{"size", {{"height", 16384}, {"width", 16384}}}}, {256, 4, 1, kGemma3Processor, 64}).grid_of({20, 20});
    FAIL() << "memory for 268 million pixels is asked for";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "becomes 268435456 pixels, expected at most 67108864");
  }
  EXPECT_EQ(load(published, shape).squares({64, 64}).n_patches(), 256);
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

TEST_F(PatchProcessorTest, shrinks_to_the_longest_edge_for_pixtral) {
  const PatchShape shape{14, 2, 1, kPixtralProcessor};
  const Json published = {{"image_processor_type", "PixtralImageProcessorFast"},
                          {"patch_size", {{"height", 14}, {"width", 14}}},
                          {"do_center_crop", nullptr},
                          {"resample", 3},
                          {"size", {{"longest_edge", 1540}}}};
  expect_cuts(load(published, shape), {{{1, 1}, {2, 2}},
                                       {{28, 29}, {2, 4}},
                                       {{47, 61}, {4, 6}},
                                       {{1540, 1540}, {110, 110}},
                                       {{1080, 1920}, {62, 110}},
                                       {{1801, 3000}, {66, 110}},
                                       {{2151, 1800}, {110, 92}},
                                       {{1023, 4093}, {28, 110}}});
  expect_cuts(load({{"size", nullptr}}, {16, 1, 1, kPixtralProcessor}), {{{3000, 4000}, {48, 64}}});
  EXPECT_EQ(load(published, shape).squares({4, 6}).height, 2);
  EXPECT_THROW(load(published, shape).grid_of({2, 4000}), Error);
  const auto refused = [&](const char* key, const Json& value) {
    Json other = published;
    other[key] = value;
    return refusal(other, shape);
  };
  EXPECT_EQ(refused("do_center_crop", true), "do_center_crop is true, expected false");
  EXPECT_EQ(refused("resample", 2), "resample is 2, expected 3 (bicubic)");
  EXPECT_EQ(refused("size", {{"height", 1024}, {"width", 1024}}),
            "size has no longest_edge, and what it has is not read");
  EXPECT_EQ(refused("size", {{"longest_edge", 0}}), "size.longest_edge is 0, expected 1 to 67108864");
  EXPECT_EQ(refused("image_processor_type", "SiglipImageProcessor"),
            "image_processor_type is 'SiglipImageProcessor', expected PixtralImageProcessor");
}

TEST_F(PatchProcessorTest, cuts_tiles_for_idefics_3_and_smolvlm) {
  const PatchShape shape{16, 4, 1, kSmolVlmProcessor, 32};
  const Json published = {{"image_processor_type", "SmolVLMImageProcessorFast"},
                          {"do_image_splitting", true},
                          {"max_image_size", {{"longest_edge", 512}}},
                          {"resample", 1},
                          {"size", {{"longest_edge", 2048}}}};
  const auto expect_tiles = [](const PatchProcessor& processor, int64_t side,
                               const std::vector<std::pair<ImageSize, ImageSize>>& all) {
    for (const auto& [size, tiles] : all) {
      const PatchGrid grid = processor.grid_of(size);
      const int64_t n = tiles.height * tiles.width;
      EXPECT_EQ(grid.width, side);
      EXPECT_EQ(grid.height, (n > 1 ? n + 1 : 1) * side) << size.height << " x " << size.width;
      EXPECT_EQ(grid.tile_columns, n > 1 ? tiles.width : 0) << size.height << " x " << size.width;
    }
  };
  expect_tiles(load(published, shape), 32,
               {{{480, 640}, {3, 4}},
                {{640, 480}, {4, 3}},
                {{1, 65535}, {1, 4}},
                {{65535, 1}, {4, 1}},
                {{700, 701}, {4, 4}},
                {{500, 1000}, {2, 4}},
                {{501, 1000}, {3, 4}},
                {{1000, 499}, {4, 2}},
                {{3000, 4000}, {3, 4}}});
  const Json settings = {{"size", {{"longest_edge", 5000}}}};  // of a tile 364 by default, of which 4 are left over
  expect_tiles(load(settings, {15, 4, 1, kIdefics3Processor, 24}), 24,
               {{{1080, 1920}, {7, 12}}, {{500, 1000}, {6, 12}}, {{1000, 499}, {12, 6}}, {{750, 1001}, {9, 12}}});
  Json whole = published;
  whole["size"]["longest_edge"] = 512;
  expect_tiles(load(whole, shape), 32, {{{480, 640}, {1, 1}}, {{1, 65535}, {1, 1}}});
  whole = published;
  whole["do_image_splitting"] = false;
  expect_tiles(load(whole, shape), 32, {{{480, 640}, {1, 1}}});
  const auto refused = [&](const char* key, const Json& value) {
    Json other = published;
    other[key] = value;
    return refusal(other, shape);
  };
  EXPECT_EQ(refused("resample", 3), "resample is 3, expected 1 (Lanczos)");
  EXPECT_EQ(refused("max_image_size", {{"longest_edge", 384}}),
            "max_image_size.longest_edge is 384, the model's tower has 32 patches of 16");
  EXPECT_EQ(refused("size", {{"height", 512}, {"width", 512}}),
            "size has no longest_edge, and what it has is not read");
  EXPECT_EQ(refused("image_processor_type", "Idefics3ImageProcessor"),
            "image_processor_type is 'Idefics3ImageProcessor', expected SmolVLMImageProcessor");
}

/// What a picture of a size becomes on its canvas: tiles, and of their patches those that are shown.
struct OnCanvas {
  ImageSize size;
  int64_t rows, columns;
  int64_t shown_rows, shown_columns;
};

void expect_on_canvas(const PatchProcessor& processor, int64_t side, std::initializer_list<OnCanvas> all) {
  for (const OnCanvas& c : all) {
    const PatchGrid grid = processor.grid_of(c.size);
    const std::string name = std::to_string(c.size.height) + " x " + std::to_string(c.size.width);
    EXPECT_EQ(grid.width, side) << name;
    EXPECT_EQ(grid.height, (1 + c.rows * c.columns) * side) << name;
    EXPECT_EQ(grid.tile_columns, c.columns) << name;
    EXPECT_EQ(grid.shown_rows, c.shown_rows) << name;
    EXPECT_EQ(grid.shown_columns, c.shown_columns) << name;
  }
}

TEST_F(PatchProcessorTest, fits_pictures_into_canvases_for_llava_next) {
  const std::vector<CanvasSize> canvases = {{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}};
  const PatchShape shape{14, 1, 1, kLlavaNextProcessor, 24, {336, canvases}};
  const Json published = {{"image_processor_type", "LlavaNextImageProcessorFast"},
                          {"crop_size", {{"height", 336}, {"width", 336}}},
                          {"do_pad", true},
                          {"image_grid_pinpoints", {{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}}},
                          {"size", {{"shortest_edge", 336}}}};
  expect_on_canvas(load(published, shape), 24,
                   {{{480, 640}, 2, 2, 36, 48},
                    {{640, 480}, 2, 2, 48, 36},
                    {{336, 336}, 1, 2, 24, 24},
                    {{1, 5000}, 1, 2, 0, 48},
                    {{5000, 1}, 1, 2, 24, 0},
                    {{1080, 1920}, 2, 2, 28, 48},
                    {{3000, 1000}, 3, 1, 72, 24},
                    {{100, 333}, 1, 2, 14, 48},
                    {{768, 1150}, 2, 2, 32, 48}});
  const auto refused = [&](const char* key, const Json& value) {
    Json other = published;
    other[key] = value;
    return refusal(other, shape);
  };
  EXPECT_EQ(refused("image_grid_pinpoints", {{336, 672}}), "image_grid_pinpoints is not that of config.json");
  EXPECT_EQ(refused("image_grid_pinpoints", nullptr), "image_grid_pinpoints is not that of config.json");
  EXPECT_EQ(refused("size", {{"shortest_edge", 224}}), "size.shortest_edge is 224, the model's tower has 336");
  EXPECT_EQ(refused("crop_size", nullptr), "crop_size.height is 224, the model's tower has 336");
  EXPECT_EQ(refused("image_processor_type", "CLIPImageProcessor"),
            "image_processor_type is 'CLIPImageProcessor', expected LlavaNextImageProcessor");
}

TEST_F(PatchProcessorTest, fits_pictures_into_canvases_for_llava_onevision) {
  PatchShape shape{14, 1, 1, kLlavaOnevisionProcessor, 27, {384, {}}};
  Json pinpoints = Json::array();
  for (int64_t height = 384; height <= 2304; height += 384)
    for (int64_t width = 384; width <= 2304; width += 384) {
      shape.canvases.sizes.push_back({height, width});
      pinpoints.push_back({height, width});
    }
  const Json published = {{"image_processor_type", "LlavaOnevisionImageProcessor"},
                          {"crop_size", nullptr},
                          {"image_grid_pinpoints", pinpoints},
                          {"size", {{"height", 384}, {"width", 384}}}};
  expect_on_canvas(load(published, shape), 27,
                   {{{480, 640}, 2, 2, 40, 54},
                    {{336, 336}, 1, 1, 27, 27},
                    {{1, 5000}, 1, 1, 1, 27},
                    {{1080, 1920}, 3, 5, 75, 135},
                    {{2304, 2304}, 6, 6, 162, 162},
                    {{3000, 1000}, 6, 2, 162, 54}});
  Json other = published;
  other["crop_size"] = {{"height", 380}, {"width", 380}};
  EXPECT_EQ(refusal(other, shape), "crop_size.height is 380, the model's tower has 384");
  other = published;
  other["size"] = {{"height", 384}, {"width", 380}};
  EXPECT_EQ(refusal(other, shape), "size.width is 380, the model's tower has 384");
}

TEST_F(PatchProcessorTest, puts_the_whole_picture_in_front_of_a_canvas_and_black_around_it) {
  const Json settings = {{"size", {{"height", 3}, {"width", 3}}},
                         {"image_grid_pinpoints", {{3, 6}}},
                         {"image_mean", {0, 0, 0}},
                         {"image_std", {1, 1, 1}},
                         {"rescale_factor", 1}};
  const PatchShape shape{1, 1, 1, kLlavaOnevisionProcessor, 3, {3, {{3, 6}}}};
  const PatchProcessor processor = load(settings, shape);
  const std::vector<float> patches = processor.patches_of({{3, 3}, std::vector<uint8_t>(27, 7)});
  std::vector<float> red;
  for (size_t i = 0; i < patches.size(); i += 3) red.push_back(patches[i]);
  EXPECT_EQ(red, (std::vector<float>{7, 7, 7, 7, 7, 7, 7, 7, 7, 0, 7, 7, 0, 7, 7, 0, 7, 7, 7, 0, 0, 7, 0, 0, 7, 0, 0}));
}

TEST_F(PatchProcessorTest, cuts_the_middle_out_for_clip) {
  const PatchShape shape{2, 1, 1, kClipProcessor, 2};
  const Json square = {{"size", {{"shortest_edge", 4}}},
                       {"crop_size", {{"height", 4}, {"width", 4}}},
                       {"image_mean", {0, 0, 0}},
                       {"image_std", {1, 1, 1}},
                       {"rescale_factor", 1}};
  Image wide{{4, 9}, {}};
  for (uint8_t pixel = 0; pixel < 36; ++pixel) wide.rgb.insert(wide.rgb.end(), 3, pixel);
  const std::vector<float> patches = load(square, shape).patches_of(wide);
  EXPECT_EQ(std::vector(patches.begin(), patches.begin() + 4), (std::vector<float>{2, 3, 11, 12}));
  EXPECT_EQ(std::vector(patches.end() - 4, patches.end()), (std::vector<float>{22, 23, 31, 32}));
  expect_cuts(load(square, shape), {{{4, 9}, {2, 2}}, {{900, 30}, {2, 2}}});
  const auto refused = [&](const char* key, const Json& value) {
    Json other = square;
    other[key] = value;
    return refusal(other, shape);
  };
  EXPECT_EQ(refused("size", {{"shortest_edge", 5}}), "size.shortest_edge is 5, the model's tower has 4");
  EXPECT_EQ(refused("size", 4), "size has no shortest_edge, and what it has is not read");
  EXPECT_EQ(refused("crop_size", {{"height", 4}, {"width", 5}}), "crop_size.width is 5, the model's tower has 4");
  EXPECT_EQ(refused("do_center_crop", false), "do_center_crop is false, expected true");
  EXPECT_EQ(refused("do_pad", true), "do_pad is true, expected false");
  EXPECT_EQ(refused("image_processor_type", "LlavaImageProcessor"),
            "image_processor_type is 'LlavaImageProcessor', expected CLIPImageProcessor");
}

TEST_F(PatchProcessorTest, cuts_tiles_for_internvl) {
  const PatchShape shape{14, 2, 1, kGotOcr2Processor, 32};
  const Json published = {{"image_processor_type", "GotOcr2ImageProcessorFast"},
                          {"crop_to_patches", false},
                          {"max_patches", 12},
                          {"min_patches", 1},
                          {"resample", 3},
                          {"size", {{"height", 448}, {"width", 448}}}};
  const auto n_tiles = [](const PatchProcessor& processor, const ImageSize& size) {
    const PatchGrid grid = processor.grid_of(size);
    EXPECT_EQ(grid.width, 32);
    return grid.height / 32;
  };
  const PatchProcessor usual = load(published, shape);
  for (const auto& [n, size] : std::vector<std::pair<int64_t, ImageSize>>{{1, {448, 448}},
                                                                          {1, {633, 633}},
                                                                          {5, {634, 634}},
                                                                          {10, {2000, 2000}},
                                                                          {7, {700, 1000}},
                                                                          {7, {1000, 700}},
                                                                          {13, {480, 640}},
                                                                          {9, {1080, 1920}},
                                                                          {9, {896, 1792}},
                                                                          {3, {300, 600}},
                                                                          {11, {100, 1000}},
                                                                          {13, {1000, 30}},
                                                                          {13, {1, 65535}}})
    EXPECT_EQ(n_tiles(usual, size), n) << size.height << " x " << size.width;
  Json few = published;
  few["min_patches"] = 3;
  few["max_patches"] = 6;
  EXPECT_EQ(n_tiles(load(few, shape), {448, 448}), 5);
  EXPECT_EQ(n_tiles(load(few, shape), {100, 1000}), 7);
  EXPECT_EQ(load(published, shape).squares({13 * 32, 32}).n_patches(), 13 * 256);
  const auto refused = [&](const char* key, const Json& value) {
    Json other = published;
    other[key] = value;
    return refusal(other, shape);
  };
  EXPECT_EQ(refused("max_patches", 0), "max_patches is 0, expected 1 to 256");
  EXPECT_EQ(refused("min_patches", 13), "min_patches is 13, expected 1 to 12");
  EXPECT_EQ(refused("resample", 2), "resample is 2, expected 3 (bicubic)");
  EXPECT_EQ(refused("size", nullptr), "size.height is 384, the model's tower has 448");
  EXPECT_EQ(refused("image_processor_type", "CLIPImageProcessor"),
            "image_processor_type is 'CLIPImageProcessor', expected GotOcr2ImageProcessor");
}

TEST_F(PatchProcessorTest, puts_tiles_row_by_row_and_the_whole_picture_behind_them) {
  const PatchProcessor processor =
      load({{"size", {{"height", 2}, {"width", 2}}}, {"image_mean", {0, 0, 0}}, {"image_std", {1, 1, 1}}},
           {1, 2, 1, kGotOcr2Processor, 2});
  Image picture{{4, 6}, {}};  // 2 x 3 tiles, each of one color
  for (int64_t y = 0; y < 4; ++y)
    for (int64_t x = 0; x < 6; ++x)
      for (int c = 0; c < 3; ++c) picture.rgb.push_back(static_cast<uint8_t>(51 * (y / 2 * 3 + x / 2)));
  const std::vector<float> patches = processor.patches_of(picture);
  ASSERT_EQ(patches.size(), 7U * 12);
  for (size_t i = 0; i < 6 * 12; ++i) EXPECT_FLOAT_EQ(patches[i], 0.2f * static_cast<float>(i / 12)) << i;
  const float whole[] = {30, 98, 157, 225};
  for (size_t i = 0; i < 12; ++i) EXPECT_FLOAT_EQ(patches[72 + i], whole[i / 3] / 255) << i;
  const PatchProcessor usual = load({{"size", {{"height", 2}, {"width", 2}}}}, {1, 2, 1, kGotOcr2Processor, 2});
  const std::vector<float> black = usual.patches_of({{2, 2}, std::vector<uint8_t>(12)});
  const double colors[] = {-0.48145466 / 0.26862954, -0.4578275 / 0.26130258, -0.40821073 / 0.27577711};
  for (size_t i = 0; i < 12; ++i) EXPECT_FLOAT_EQ(black[i], static_cast<float>(colors[i % 3])) << i;
}

}  // namespace
}  // namespace kvcal
