#include "vision/clip_processor.h"

#include <algorithm>
#include <string>

namespace kvcal {
namespace {

/// With its shorter side `side`; the longer one is rounded down.
ImageSize with_shorter_side(const ImageSize& size, int64_t side) {
  const int64_t shorter = std::min(size.height, size.width);
  const ImageSize out = {side * size.height / shorter, side * size.width / shorter};
  if (out.height * out.width > kMostPixels)
    fail("becomes " + std::to_string(out.height) + " x " + std::to_string(out.width) + " pixels, expected at most " +
         std::to_string(kMostPixels));
  return out;
}

}  // namespace

PatchRules read_clip_processor(const Json& settings, const PatchShape& shape) {
  check_steps(settings, shape, {3, "bicubic"});
  if (!get_bool_or(settings, "do_center_crop", true)) fail("do_center_crop is false, expected true");
  if (get_bool_or(settings, "do_pad", false)) fail("do_pad is true, expected false");
  const int64_t side = shape.side * shape.size;
  expect_edges(settings, {{"size", "shortest_edge"}, {"crop_size", "height"}, {"crop_size", "width"}}, 224, side);
  const PatchGrid square{shape.side, shape.side};
  PatchRules rules{[square](const ImageSize&) { return square; }, Json::array(), kBicubic};
  rules.arranged = [side](const Image& given) { return resized(given, with_shorter_side(given.size, side), kBicubic); };
  read_colors(settings, {0.48145466, 0.4578275, 0.40821073}, {0.26862954, 0.26130258, 0.27577711}, rules);
  return rules;
}

}  // namespace kvcal
