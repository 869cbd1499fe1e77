#include "vision/llama4_processor.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "vision/tiles.h"

namespace kvcal {
namespace {

constexpr int64_t kMostTiles = 256;

struct CanvasRules {
  int64_t most_tiles, edge;  // edge: pixels of a tile
  bool largest;              // pictures grow as far as a canvas allows
};

struct Tiles {
  int64_t rows = 1, columns = 1;
  int64_t n() const { return rows * columns; }
};

float ratio(int64_t a, int64_t b) { return static_cast<float>(a) / static_cast<float>(b); }

/// By which a picture touches two edges of these tiles, or would.
float scale_on(const Tiles& tiles, const ImageSize& size, int64_t edge) {
  return std::min(ratio(tiles.columns * edge, size.width), ratio(tiles.rows * edge, size.height));
}

/// On which a picture grows least, or most, or else shrinks least; of several, as few as there are.
Tiles tiles_of(const ImageSize& size, const CanvasRules& rules) {
  Tiles best;
  float best_scale = scale_on(best, size, rules.edge);
  const auto better = [&](float scale) {
    return scale >= 1 && best_scale >= 1 && !rules.largest ? scale < best_scale : scale > best_scale;
  };
  for (int64_t rows = 1; rows <= rules.most_tiles; ++rows)
    for (int64_t columns = 1; rows * columns <= rules.most_tiles; ++columns) {
      const Tiles tiles = {rows, columns};
      const float scale = scale_on(tiles, size, rules.edge);
      if (!better(scale) && (scale != best_scale || tiles.n() >= best.n())) continue;
      best = tiles;
      best_scale = scale;
    }
  return best;
}

/// What one side of a picture may become.
struct Side {
  int64_t length, most;
  bool single;  // `most` is the canvas's: the reference framework then goes on in float32
  double scale;
};

Side side_of(int64_t length, int64_t canvas, const CanvasRules& rules) {
  const int64_t wanted = std::max(length, rules.edge);
  if (rules.largest || wanted > canvas) return {length, canvas, true, ratio(canvas, length)};
  return {length, wanted, false, static_cast<double>(wanted) / static_cast<double>(length)};
}

/// A side by the scale of the other one, rounded down.
int64_t scaled(const Side& side, const Side& by) {
  const double exact = static_cast<double>(side.length) * by.scale;
  const double product = by.single ? static_cast<double>(static_cast<float>(exact)) : exact;
  return std::clamp<int64_t>(static_cast<int64_t>(std::floor(product)), 1, side.most);
}

/// Of the picture on its canvas. It does not grow beyond a tile, unless all are to be as large as they can.
ImageSize size_on(const ImageSize& canvas, const ImageSize& size, const CanvasRules& rules) {
  const Side height = side_of(size.height, canvas.height, rules), width = side_of(size.width, canvas.width, rules);
  const bool by_width = height.single || width.single
                            ? static_cast<float>(width.scale) < static_cast<float>(height.scale)
                            : width.scale < height.scale;
  if (by_width) return {scaled(height, width), width.most};
  return {height.most, scaled(width, height)};
}

PatchGrid grid_of(const ImageSize& size, const CanvasRules& rules, int64_t side) {
  const Tiles tiles = tiles_of(size, rules);
  if (tiles.n() == 1) return {side, side};
  return {(tiles.n() + 1) * side, side, tiles.columns};
}

Image below_each_other(const Image& picture, const CanvasRules& rules) {
  const Tiles tiles = tiles_of(picture.size, rules);
  const ImageSize canvas = {tiles.rows * rules.edge, tiles.columns * rules.edge};
  const Image all = on_black(resized(picture, size_on(canvas, picture.size, rules), kBilinear), canvas, {0, 0});
  Image out;
  for (int64_t y = 0; y < canvas.height; y += rules.edge)
    for (int64_t x = 0; x < canvas.width; x += rules.edge) append_tile(out, all, {y, x}, rules.edge);
  if (tiles.n() > 1) append_tile(out, resized(picture, {rules.edge, rules.edge}, kBilinear), {0, 0}, rules.edge);
  return out;
}

}  // namespace

PatchRules read_llama4_processor(const Json& settings, const PatchShape& shape) {
  check_steps(settings, shape, {2, "bilinear"});
  const CanvasRules canvas = {get_int_or(settings, "max_patches", 16), shape.side * shape.size,
                              get_bool_or(settings, "resize_to_max_canvas", false)};
  if (canvas.most_tiles < 1 || canvas.most_tiles > kMostTiles)
    fail("max_patches is " + std::to_string(canvas.most_tiles) + ", expected 1 to " + std::to_string(kMostTiles));
  expect_edges(settings, {{"size", "height"}, {"size", "width"}}, 336, canvas.edge);
  PatchRules rules{[=](const ImageSize& size) { return grid_of(size, canvas, shape.side); },
                   {canvas.most_tiles, canvas.edge, canvas.largest},
                   kBilinear};
  rules.arranged = [=](const Image& picture) { return below_each_other(picture, canvas); };
  read_bf16_colors(settings, {0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}, rules);
  return rules;
}

}  // namespace kvcal
