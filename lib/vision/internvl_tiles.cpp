#include "vision/internvl_tiles.h"

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

/// Fewer tiles first; of as many, narrower ones.
std::vector<Tiles> arrangements(const TileLimits& limits) {
  std::vector<Tiles> all;
  for (int64_t columns = 1; columns <= limits.most; ++columns)
    for (int64_t rows = 1; rows * columns <= limits.most; ++rows)
      if (rows * columns >= limits.least) all.push_back({rows, columns});
  std::ranges::stable_sort(all, {}, &Tiles::n);
  return all;
}

/// As wide for their height as the picture; of several, as many as it fills by half.
Tiles tiles_of(const ImageSize& size, const TileLimits& limits, int64_t edge) {
  const auto height = static_cast<double>(size.height), width = static_cast<double>(size.width);
  const auto tile = static_cast<double>(edge * edge);
  Tiles best;
  double least = std::numeric_limits<double>::infinity();
  for (const Tiles& t : arrangements(limits)) {
    const double off = std::fabs(width / height - static_cast<double>(t.columns) / static_cast<double>(t.rows));
    const bool filled = width * height > 0.5 * tile * static_cast<double>(t.n());
    if (off < least || (off == least && filled)) best = t;
    least = std::min(least, off);
  }
  return best;
}

bool has_whole(const Tiles& tiles, const TileLimits& limits) { return limits.whole && tiles.n() > 1; }

}  // namespace

void check_limits(const TileLimits& limits, const LimitNames& names) {
  if (limits.most < 1 || limits.most > kMostTiles)
    fail(std::string(names.most) + " is " + std::to_string(limits.most) + ", expected 1 to " +
         std::to_string(kMostTiles));
  if (limits.least < 1 || limits.least > limits.most)
    fail(std::string(names.least) + " is " + std::to_string(limits.least) + ", expected 1 to " +
         std::to_string(limits.most));
}

PatchRules rules_of_tiles(const TileLimits& limits, const PatchShape& shape, const ResizeKernel& kernel) {
  const int64_t edge = shape.side * shape.size, side = shape.side;
  PatchRules rules{[=](const ImageSize& picture) {
                     const Tiles tiles = tiles_of(picture, limits, edge);
                     return PatchGrid{(tiles.n() + (has_whole(tiles, limits) ? 1 : 0)) * side, side};
                   },
                   {limits.least, limits.most, limits.whole, edge},
                   kernel};
  rules.arranged = [=](const Image& picture) {
    const Tiles tiles = tiles_of(picture.size, limits, edge);
    const Image all = resized(picture, {tiles.rows * edge, tiles.columns * edge}, kernel);
    Image out;
    for (int64_t y = 0; y < all.size.height; y += edge)
      for (int64_t x = 0; x < all.size.width; x += edge) append_tile(out, all, {y, x}, edge);
    if (has_whole(tiles, limits)) append_tile(out, resized(picture, {edge, edge}, kernel), {0, 0}, edge);
    return out;
  };
  return rules;
}

}  // namespace kvcal
