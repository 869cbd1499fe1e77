#include "vision/pixtral_processor.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace kvcal {
namespace {

/// As many whole squares as hold the picture; it is stretched to them.
PatchGrid grid_below(const ImageSize& size, int64_t longest, const PatchShape& shape) {
  const auto h = static_cast<double>(size.height), w = static_cast<double>(size.width);
  const double shrink = std::max({1.0, h / static_cast<double>(longest), w / static_cast<double>(longest)});
  const auto patches = [&](double length) {
    const int64_t square = shape.size * shape.merge;
    return (static_cast<int64_t>(std::floor(length / shrink)) + square - 1) / square * shape.merge;
  };
  return {patches(h), patches(w)};
}

}  // namespace

PatchRules read_pixtral_processor(const Json& settings, const PatchShape& shape) {
  check_steps(settings, shape, {3, "bicubic"});
  if (get_bool_or(settings, "do_center_crop", false)) fail("do_center_crop is true, expected false");
  const int64_t longest = read_edge(settings, {"size", "longest_edge"}, 1024);
  PatchRules rules{[=](const ImageSize& size) { return grid_below(size, longest, shape); }, {longest}, kBicubic};
  read_colors(settings, {0.48145466, 0.4578275, 0.40821073}, {0.26862954, 0.26130258, 0.27577711}, rules);
  return rules;
}

}  // namespace kvcal
