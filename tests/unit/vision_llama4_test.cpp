// How Llama 4 puts a picture on a canvas of tiles, as the reference framework's get_best_fit and
// get_max_res_without_distortion give it.
#include <gtest/gtest.h>

#include "vision/llama4_processor.h"

namespace kvcal {
namespace {

constexpr PatchShape kShape{14, 2, 1, kLlama4Processor, 24};
constexpr PatchShape kSmall{4, 2, 1, kLlama4Processor, 4};

const Json& published() {
  static const Json settings = {{"image_processor_type", "Llama4ImageProcessorFast"},
                                {"crop_size", nullptr},
                                {"max_patches", 16},
                                {"resample", 2},
                                {"resize_to_max_canvas", false},
                                {"size", {{"height", 336}, {"width", 336}}}};
  return settings;
}

Json with(const char* key, const Json& value) {
  Json settings = published();
  settings[key] = value;
  return settings;
}

/// Of tiles of 16 pixels.
Json small(bool largest) {
  return {{"max_patches", 4}, {"resize_to_max_canvas", largest}, {"size", {{"height", 16}, {"width", 16}}}};
}

struct Cut {
  ImageSize size;
  int64_t n_tiles, columns;  // n_tiles: with the whole picture; columns: 0 of a single one
};

void expect_cuts(const PatchRules& rules, std::initializer_list<Cut> cuts) {
  for (const Cut& cut : cuts) {
    const PatchGrid grid = rules.grid_of(cut.size);
    EXPECT_TRUE(grid.height == 24 * cut.n_tiles && grid.width == 24 && grid.tile_columns == cut.columns)
        << cut.size.height << " x " << cut.size.width << " became " << grid.height << " x " << grid.width << ", "
        << grid.tile_columns << " in a line";
  }
}

TEST(Llama4Processor, takes_the_canvas_on_which_a_picture_shrinks_least_or_grows_least) {
  for (const Json& settings : {published(), Json::object()})
    expect_cuts(read_llama4_processor(settings, kShape), {{{480, 640}, 5, 2},
                                                          {{1080, 1920}, 16, 5},
                                                          {{1, 1}, 1, 0},
                                                          {{3000, 4000}, 13, 4},
                                                          {{337, 336}, 3, 1},
                                                          {{336, 337}, 3, 2},
                                                          {{336, 336}, 1, 0},
                                                          {{1, 65535}, 17, 16},
                                                          {{65535, 300}, 17, 1},
                                                          {{600, 1024}, 9, 4},
                                                          {{480, 5420}, 13, 12}});
  expect_cuts(read_llama4_processor(with("max_patches", 1), kShape), {{{480, 640}, 1, 0}});
}

TEST(Llama4Processor, takes_the_canvas_on_which_a_picture_grows_most) {
  expect_cuts(read_llama4_processor(with("resize_to_max_canvas", true), kShape),
              {{{480, 640}, 13, 4}, {{100, 100}, 17, 4}, {{300, 1000}, 15, 7}, {{1344, 1345}, 17, 4}});
}

/// What a white picture leaves of the first tiles' black: rows and columns, as if it lay on one line of tiles.
ImageSize shown(const Json& settings, const ImageSize& size) {
  const PatchRules rules = read_llama4_processor(settings, kSmall);
  const Image white{size, std::vector<uint8_t>(static_cast<size_t>(size.height * size.width * 3), 255)};
  const Image tiles = rules.arranged(white);
  const PatchGrid grid = rules.grid_of(size);
  const int64_t columns = std::max<int64_t>(grid.tile_columns, 1), edge = tiles.size.width;
  const int64_t rows = (tiles.size.height / edge - (grid.tile_columns > 0 ? 1 : 0)) / columns;
  const auto is_white = [&](int64_t y, int64_t x) {
    const int64_t tile = y / edge * columns + x / edge;
    return tiles.rgb[static_cast<size_t>(((tile * edge + y % edge) * edge + x % edge) * 3)] == 255;
  };
  ImageSize found;
  while (found.height < rows * edge && is_white(found.height, 0)) ++found.height;
  while (found.width < columns * edge && is_white(0, found.width)) ++found.width;
  return found;
}

TEST(Llama4Processor, keeps_pictures_as_they_are_where_there_is_room) {
  EXPECT_EQ(shown(small(false), {7, 19}), (ImageSize{7, 19}));
  EXPECT_EQ(shown(small(false), {11, 16}), (ImageSize{11, 16}));
  EXPECT_EQ(shown(small(false), {20, 20}), (ImageSize{20, 20}));
  EXPECT_EQ(shown(small(false), {9, 14}), (ImageSize{10, 16})) << "up to a tile";
  EXPECT_EQ(shown(small(true), {9, 14}), (ImageSize{20, 32})) << "up to the canvas";
}

TEST(Llama4Processor, rounds_sides_as_float32_does) {
  EXPECT_EQ(shown(small(false), {41, 41}), (ImageSize{32, 31})) << "32 in double";
  EXPECT_EQ(shown(small(false), {94, 94}), (ImageSize{32, 31})) << "32 in double";
  EXPECT_EQ(shown(small(false), {196, 49}), (ImageSize{64, 16})) << "15 in double";
  EXPECT_EQ(shown(small(true), {147, 196}), (ImageSize{24, 32})) << "23 in double";
  EXPECT_EQ(shown(small(true), {187, 187}), (ImageSize{32, 32})) << "31 in double";
}

TEST(Llama4Processor, rounds_colors_to_bf16_after_each_step) {
  const PatchRules rules = read_llama4_processor(with("image_std", {0.5, 0.3, 0.25}), kShape);
  EXPECT_EQ(rules.colors[0][0], -1.0f);
  EXPECT_EQ(rules.colors[0][255], 1.0f);
  EXPECT_EQ(rules.colors[0][100], -0.21484375f);
  EXPECT_EQ(rules.colors[1][100], -0.357421875f);
  EXPECT_EQ(rules.colors[2][100], -0.4296875f);
  EXPECT_EQ(rules.colors[1][3], -1.625f);
}

TEST(Llama4Processor, refuses_what_it_does_not_know) {
  const auto refused = [](const char* key, const Json& value) -> std::string {
    try {
      read_llama4_processor(with(key, value), kShape);
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  };
  EXPECT_EQ(refused("max_patches", 0), "max_patches is 0, expected 1 to 256");
  EXPECT_EQ(refused("max_patches", 257), "max_patches is 257, expected 1 to 256");
  EXPECT_EQ(refused("do_normalize", false), "do_normalize is false, expected true");
  EXPECT_EQ(refused("do_rescale", false), "do_rescale is false, expected true");
  EXPECT_EQ(refused("resample", 3), "resample is 3, expected 2 (bilinear)");
  EXPECT_EQ(refused("size", {{"height", 336}, {"width", 448}}), "size.width is 448, the model's tower has 336");
  EXPECT_EQ(refused("image_std", {0.5, 0.0, 0.5}), "image_std holds 0");
  EXPECT_EQ(refused("image_mean", {1e39, 0.5, 0.5}), "image_mean holds a number that is not finite");
  EXPECT_EQ(refused("image_processor_type", "Gemma3ImageProcessor"),
            "image_processor_type is 'Gemma3ImageProcessor', expected Llama4ImageProcessor");
}

}  // namespace
}  // namespace kvcal
