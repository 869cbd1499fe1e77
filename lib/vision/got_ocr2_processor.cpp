#include "vision/got_ocr2_processor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "vision/tiles.h"

namespace kvcal {
namespace {

constexpr int64_t kMostTiles = 256;

struct Tiles {
  int64_t rows = 1, columns = 1;
  int64_t n() const { return rows * columns; }
};

struct TileRules {
  int64_t least, most, edge;  // tiles of a picture; pixels on a side of each
};

/// Fewer tiles first; of as many, narrower ones.
std::vector<Tiles> arrangements(const TileRules& rules) {
  std::vector<Tiles> all;
  for (int64_t columns = 1; columns <= rules.most; ++columns)
    for (int64_t rows = 1; rows * columns <= rules.most; ++rows)
      if (rows * columns >= rules.least) all.push_back({rows, columns});
  std::ranges::stable_sort(all, {}, &Tiles::n);
  return all;
}

/// As wide for their height as the picture; of several, as many as it fills by half.
Tiles tiles_of(const ImageSize& size, const TileRules& rules) {
  const auto height = static_cast<double>(size.height), width = static_cast<double>(size.width);
  const auto tile = static_cast<double>(rules.edge * rules.edge);
  Tiles best;
  double least = std::numeric_limits<double>::infinity();
  for (const Tiles& t : arrangements(rules)) {
    const double off = std::fabs(width / height - static_cast<double>(t.columns) / static_cast<double>(t.rows));
    const bool filled = width * height > 0.5 * tile * static_cast<double>(t.n());
    if (off < least || (off == least && filled)) best = t;
    least = std::min(least, off);
  }
  return best;
}

int64_t n_with_whole(const Tiles& tiles) { return tiles.n() > 1 ? tiles.n() + 1 : 1; }

Image below_each_other(const Image& picture, const TileRules& rules) {
  const Tiles tiles = tiles_of(picture.size, rules);
  const int64_t edge = rules.edge;
  const ImageSize cut = {tiles.rows * edge, tiles.columns * edge};
  const Image all = resized(picture, cut, kBicubic);
  Image out;
  for (int64_t y = 0; y < cut.height; y += edge)
    for (int64_t x = 0; x < cut.width; x += edge) append_tile(out, all, {y, x}, edge);
  if (tiles.n() > 1) append_tile(out, resized(picture, {edge, edge}, kBicubic), {0, 0}, edge);
  return out;
}

TileRules read_tiles(const Json& settings, int64_t edge) {
  const TileRules rules = {get_int_or(settings, "min_patches", 1), get_int_or(settings, "max_patches", 12), edge};
  if (rules.most < 1 || rules.most > kMostTiles)
    fail("max_patches is " + std::to_string(rules.most) + ", expected 1 to " + std::to_string(kMostTiles));
  if (rules.least < 1 || rules.least > rules.most)
    fail("min_patches is " + std::to_string(rules.least) + ", expected 1 to " + std::to_string(rules.most));
  return rules;
}

}  // namespace

// "crop_to_patches" of the file, which is false in published ones, is not asked for: InternVLProcessor says true.
PatchRules read_got_ocr2_processor(const Json& settings, const PatchShape& shape) {
  check_steps(settings, shape, {3, "bicubic"});
  const TileRules tiles = read_tiles(settings, shape.side * shape.size);
  const Json* size = find_member(settings, "size");
  for (const char* edge : {"height", "width"})
    expect_of_tower(size ? *size : Json::object(), edge, 384, tiles.edge, "size.");
  PatchRules rules{[=](const ImageSize& picture) {
                     return PatchGrid{n_with_whole(tiles_of(picture, tiles)) * shape.side, shape.side};
                   },
                   {tiles.least, tiles.most, tiles.edge},
                   kBicubic,
                   {},
                   {}};
  rules.arranged = [=](const Image& picture) { return below_each_other(picture, tiles); };
  read_colors(settings, {0.48145466, 0.4578275, 0.40821073}, {0.26862954, 0.26130258, 0.27577711}, rules);
  return rules;
}

}  // namespace kvcal
