#include "vision/idefics3_processor.h"

#include <algorithm>
#include <string>

#include "vision/tiles.h"

namespace kvcal {
namespace {

constexpr int64_t kLongestResized = 4096;  // whatever the file says

struct TileRules {
  int64_t longest, edge;  // pixels: of the picture's longer edge before it is cut, of a tile
  bool split;
};

/// The other edge where the longer one of `size` becomes `to`; in doubles, in this order, as Python has it.
int64_t shorter_edge(const ImageSize& size, int64_t to) {
  const double ratio = static_cast<double>(size.width) / static_cast<double>(size.height);
  const auto length = static_cast<double>(to);
  return static_cast<int64_t>(size.width >= size.height ? length / ratio : length * ratio);
}

ImageSize with_edges(const ImageSize& shape, int64_t longer, int64_t shorter) {
  return shape.width >= shape.height ? ImageSize{shorter, longer} : ImageSize{longer, shorter};
}

/// Of the picture before it is stretched to whole tiles: the shorter edge is even unless the most shrinks it again.
ImageSize size_before_tiles(const ImageSize& size, int64_t longest) {
  const int64_t shorter = shorter_edge(size, longest);
  const ImageSize even = with_edges(size, longest, std::max<int64_t>(shorter + shorter % 2, 1));
  if (longest <= kLongestResized) return even;
  return with_edges(even, kLongestResized, std::max<int64_t>(shorter_edge(even, kLongestResized), 1));
}

int64_t whole_tiles(int64_t pixels, int64_t edge) { return (pixels + edge - 1) / edge * edge; }

ImageSize size_of_tiles(const ImageSize& size, const TileRules& rules) {
  if (!rules.split) return {rules.edge, rules.edge};
  const int64_t longer = whole_tiles(std::max(size.height, size.width), rules.edge);
  return with_edges(size, longer, whole_tiles(shorter_edge(size, longer), rules.edge));
}

PatchGrid grid_of(const ImageSize& picture, const TileRules& rules, int64_t side) {
  const ImageSize cut = size_of_tiles(size_before_tiles(picture, rules.longest), rules);
  const int64_t rows = cut.height / rules.edge, columns = cut.width / rules.edge;
  if (rows * columns == 1) return {side, side};
  return {(rows * columns + 1) * side, side, columns};
}

/// Each tile without what is left over by its patches, of which there are `kept` pixels.
Image below_each_other(const Image& picture, const TileRules& rules, int64_t kept) {
  const ImageSize before = size_before_tiles(picture.size, rules.longest), cut = size_of_tiles(before, rules);
  const Image all = resized(resized(picture, before, kLanczos), cut, kLanczos);
  Image out;
  for (int64_t y = 0; y < cut.height; y += rules.edge)
    for (int64_t x = 0; x < cut.width; x += rules.edge) append_tile(out, all, {y, x}, kept);
  if (out.size.height > kept) append_tile(out, resized(all, {rules.edge, rules.edge}, kLanczos), {0, 0}, kept);
  return out;
}

}  // namespace

PatchRules read_idefics3_processor(const Json& settings, const PatchShape& shape) {
  check_steps(settings, shape, {1, "Lanczos"});
  const TileRules tiles = {read_edge(settings, {"size", "longest_edge"}, 4 * 364),
                           read_edge(settings, {"max_image_size", "longest_edge"}, 364),
                           get_bool_or(settings, "do_image_splitting", true)};
  if (tiles.edge > kLongestResized || tiles.edge / shape.size != shape.side)
    fail("max_image_size.longest_edge is " + std::to_string(tiles.edge) + ", the model's tower has " +
         std::to_string(shape.side) + " patches of " + std::to_string(shape.size));
  PatchRules rules{[=](const ImageSize& picture) { return grid_of(picture, tiles, shape.side); },
                   {tiles.longest, tiles.edge, tiles.split},
                   kLanczos};
  rules.arranged = [=](const Image& picture) { return below_each_other(picture, tiles, shape.side * shape.size); };
  read_colors(settings, {0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}, rules);
  return rules;
}

}  // namespace kvcal
