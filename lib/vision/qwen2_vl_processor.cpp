#include "vision/qwen2_vl_processor.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace kvcal {
namespace {

constexpr double kMostSlender = 200;

/// Bounds on the pixels of a picture, by their newer name or their older one.
int64_t read_pixels(const Json& settings, const char* edge, const char* older, int64_t fallback) {
  const Json* size = find_member(settings, "size");
  int64_t pixels = size && size->is_object() ? get_int_or(*size, edge, fallback, "size.") : fallback;
  pixels = get_int_or(settings, older, pixels);
  if (pixels < 1 || pixels > kMostPixels)
    fail(std::string(older) + " is " + std::to_string(pixels) + ", expected 1 to " + std::to_string(kMostPixels));
  return pixels;
}

/// Halves go to the even neighbor, as Python rounds.
int64_t rounded(double x) { return static_cast<int64_t>(std::nearbyint(x)); }

struct AreaBounds {
  int64_t least, most;  // pixels
  int64_t frames = 1;   // each of which has them
};

PatchGrid grid_within(const ImageSize& size, const AreaBounds& bounds, const PatchShape& shape) {
  const auto h = static_cast<double>(size.height), w = static_cast<double>(size.width);
  const int64_t square = shape.size * shape.merge;
  const auto side = static_cast<double>(square), frames = static_cast<double>(bounds.frames);
  if (std::max(h, w) / std::min(h, w) > kMostSlender)
    fail("is more than " + std::to_string(static_cast<int>(kMostSlender)) + " times as long as wide");
  int64_t rows = rounded(h / side), columns = rounded(w / side);
  if (bounds.frames * rows * columns * square * square > bounds.most) {
    const double shrink = std::sqrt(frames * h * w / static_cast<double>(bounds.most));
    rows = std::max<int64_t>(1, static_cast<int64_t>(std::floor(h / shrink / side)));
    columns = std::max<int64_t>(1, static_cast<int64_t>(std::floor(w / shrink / side)));
  } else if (bounds.frames * rows * columns * square * square < bounds.least) {
    const double grow = std::sqrt(static_cast<double>(bounds.least) / (frames * h * w));
    rows = static_cast<int64_t>(std::ceil(h * grow / side));
    columns = static_cast<int64_t>(std::ceil(w * grow / side));
  }
  return {rows * shape.merge, columns * shape.merge};
}

/// Made as large as a square of patches, where a side is shorter.
ImageSize grown(const ImageSize& size, int64_t square) {
  if (std::min(size.height, size.width) >= square) return size;
  const auto h = static_cast<double>(size.height), w = static_cast<double>(size.width);
  const double scale = std::max(static_cast<double>(square) / h, static_cast<double>(square) / w);
  return {static_cast<int64_t>(h * scale), static_cast<int64_t>(w * scale)};
}

void expect_patches(const Json& settings, const PatchShape& shape) {
  check_steps(settings, shape, {3, "bicubic"});
  expect_of_tower(settings, "patch_size", 14, shape.size);
  expect_of_tower(settings, "merge_size", 2, shape.merge);
  expect_of_tower(settings, "temporal_patch_size", 2, shape.frames);
}

PatchRules rules_within(const Json& settings, const AreaBounds& bounds,
                        std::function<PatchGrid(const ImageSize&)> grid_of) {
  PatchRules rules{std::move(grid_of), {bounds.least, bounds.most}, kBicubic};
  read_colors(settings, {0.48145466, 0.4578275, 0.40821073}, {0.26862954, 0.26130258, 0.27577711}, rules);
  return rules;
}

}  // namespace

PatchRules read_glm4v_processor(const Json& given, const PatchShape& shape) {
  Json settings = given;
  // GLM-4.6V's has another name and nothing else of its own.
  if (get_string_or(settings, "image_processor_type", "").starts_with("Glm46VImageProcessor"))
    settings.erase("image_processor_type");
  expect_patches(settings, shape);
  const AreaBounds bounds = {read_edge(settings, {"size", "shortest_edge"}, 112 * 112),
                             read_edge(settings, {"size", "longest_edge"}, 28 * 28 * 15000), shape.frames};
  return rules_within(settings, bounds, [=](const ImageSize& size) {
    return grid_within(grown(size, shape.size * shape.merge), bounds, shape);
  });
}

PatchRules read_qwen2_vl_processor(const Json& settings, const PatchShape& shape) {
  expect_patches(settings, shape);
  const AreaBounds bounds = {read_pixels(settings, "shortest_edge", "min_pixels", 56 * 56),
                             read_pixels(settings, "longest_edge", "max_pixels", 28 * 28 * 1280)};
  return rules_within(settings, bounds, [=](const ImageSize& size) { return grid_within(size, bounds, shape); });
}

}  // namespace kvcal
