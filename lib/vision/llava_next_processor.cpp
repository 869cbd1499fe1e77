#include "vision/llava_next_processor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "vision/tiles.h"

namespace kvcal {
namespace {

double ratio(int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

double times(int64_t length, double scale) { return static_cast<double>(length) * scale; }

/// On which most of the picture's pixels are left; of several, the one with the fewest others.
CanvasSize canvas_of(const ImageSize& size, const Canvases& canvases) {
  CanvasSize best;
  int64_t most = 0, least_wasted = std::numeric_limits<int64_t>::max();
  for (const CanvasSize& c : canvases.sizes) {
    const double scale = std::min(ratio(c.width, size.width), ratio(c.height, size.height));
    const auto width = static_cast<int64_t>(times(size.width, scale));
    const auto height = static_cast<int64_t>(times(size.height, scale));
    const int64_t left = std::min(width * height, size.width * size.height), wasted = c.height * c.width - left;
    if (left < most || (left == most && wasted >= least_wasted)) continue;
    best = c;
    most = left;
    least_wasted = wasted;
  }
  return best;
}

/// Of the picture on its canvas.
ImageSize size_on(const CanvasSize& canvas, const ImageSize& size) {
  const double by_width = ratio(canvas.width, size.width), by_height = ratio(canvas.height, size.height);
  const auto shorter = [](int64_t length, double scale, int64_t most) {
    return std::min(static_cast<int64_t>(std::ceil(times(length, scale))), most);
  };
  if (by_width < by_height) return {shorter(size.height, by_width, canvas.height), canvas.width};
  return {canvas.height, shorter(size.width, by_height, canvas.width)};
}

/// Of `all` patches, how many are left when as many are taken off both ends as can be, and `length` pixels by this
/// scale are not: rounded to seven digits, then down, as the reference framework has it.
int64_t shown(int64_t all, int64_t length, double scale) {
  const auto needed = static_cast<int64_t>(times(length, scale) + 0.5e-7);
  return all - (all - needed) / 2 * 2;
}

PatchGrid grid_of(const ImageSize& size, const PatchShape& shape) {
  const CanvasSize canvas = canvas_of(size, shape.canvases);
  const int64_t rows = canvas.height / shape.canvases.tile, columns = canvas.width / shape.canvases.tile;
  PatchGrid grid{(1 + rows * columns) * shape.side, shape.side, columns, rows * shape.side, columns * shape.side};
  if (ratio(size.width, size.height) > ratio(columns, rows)) {
    grid.shown_rows = shown(grid.shown_rows, size.height, ratio(grid.shown_columns, size.width));
  } else {
    grid.shown_columns = shown(grid.shown_columns, size.width, ratio(grid.shown_rows, size.height));
  }
  return grid;
}

/// In the middle; what cannot be halved lies at the right and lower edge.
Image on_canvas(const Image& picture, const CanvasSize& canvas) {
  const Corner first = {(canvas.height - picture.size.height) / 2, (canvas.width - picture.size.width) / 2};
  return on_black(picture, {canvas.height, canvas.width}, first);
}

/// Each tile without what is left over by its patches.
Image below_each_other(const Image& picture, const PatchShape& shape) {
  const int64_t edge = shape.canvases.tile, kept = shape.side * shape.size;
  const CanvasSize canvas = canvas_of(picture.size, shape.canvases);
  const Image all = on_canvas(resized(picture, size_on(canvas, picture.size), kBicubic), canvas);
  Image out;
  append_tile(out, resized(picture, {edge, edge}, kBicubic), {0, 0}, kept);
  for (int64_t y = 0; y < canvas.height; y += edge)
    for (int64_t x = 0; x < canvas.width; x += edge) append_tile(out, all, {y, x}, kept);
  return out;
}

// do_center_crop cuts nothing off a tile, and do_pad adds tiles that the model drops.
PatchRules read_canvases(const Json& settings, const PatchShape& shape) {
  check_steps(settings, shape, {3, "bicubic"});
  Json sizes = Json::array();
  for (const CanvasSize& c : shape.canvases.sizes) sizes.push_back({c.height, c.width});
  if (const Json* given = find_member(settings, "image_grid_pinpoints"); !given || *given != sizes)
    fail("image_grid_pinpoints is not that of config.json");
  PatchRules rules{[=](const ImageSize& size) { return grid_of(size, shape); }, sizes, kBicubic};
  rules.sizes.push_back(shape.canvases.tile);
  rules.arranged = [=](const Image& picture) { return below_each_other(picture, shape); };
  read_colors(settings, {0.48145466, 0.4578275, 0.40821073}, {0.26862954, 0.26130258, 0.27577711}, rules);
  return rules;
}

}  // namespace

PatchRules read_llava_next_processor(const Json& settings, const PatchShape& shape) {
  expect_edges(settings, {{"size", "shortest_edge"}, {"crop_size", "height"}, {"crop_size", "width"}}, 224,
               shape.canvases.tile);
  return read_canvases(settings, shape);
}

PatchRules read_llava_onevision_processor(const Json& settings, const PatchShape& shape) {
  expect_edges(settings, {{"size", "height"}, {"size", "width"}}, 384, shape.canvases.tile);
  if (find_member(settings, "crop_size"))
    expect_edges(settings, {{"crop_size", "height"}, {"crop_size", "width"}}, 384, shape.canvases.tile);
  return read_canvases(settings, shape);
}

}  // namespace kvcal
