// What the files of image processors have in common.
#pragma once

#include <array>
#include <functional>
#include <initializer_list>
#include <string_view>

#include "base/json.h"
#include "vision/image.h"
#include "vision/patches.h"
#include "vision/resize.h"

namespace kvcal {

/// What becomes of each byte of a color.
using ColorTable = std::array<float, 256>;

/// How a processor makes patches of pictures.
struct PatchRules {
  std::function<PatchGrid(const ImageSize&)> grid_of;
  Json sizes;  // what that depends on, beside the shape
  ResizeKernel kernel;
  std::array<ColorTable, 3> colors{};  // of R, G and B
  /// A picture as it is cut, from its middle where it is larger than the patches; absent: resized to their pixels.
  std::function<Image(const Image&)> arranged{};
};

/// Throws Error where the file is another processor's than `shape` names, leaves out a step that all have, or resizes
/// otherwise: by a number of Pillow's, of which `filter` is the name and what an absent one means.
struct NamedFilter {
  int64_t number;
  const char* name;
};
void check_steps(const Json& settings, const PatchShape& shape, const NamedFilter& filter);

/// Throws Error where the file has a key with another value than the model's tower.
void expect_of_tower(const Json& settings, const char* key, int64_t fallback, int64_t wanted,
                     std::string_view where = "");

/// An edge of `size` or `crop_size`, in pixels. Throws Error where the file has that otherwise, or out of range.
struct EdgeName {
  const char *of, *edge;
};
int64_t read_edge(const Json& settings, const EdgeName& name, int64_t fallback);

/// Throws Error unless each of these edges has as many pixels as the model's tower.
void expect_edges(const Json& settings, std::initializer_list<EdgeName> names, int64_t fallback, int64_t wanted);

/// Of R, G, B by a key: a number for each.
using Channels = std::array<double, 3>;

/// Reads rescale_factor, image_mean and image_std, with their defaults for missing keys. Throws Error for one without
/// do_normalize.
/// rescale_factor, else 1/255. Throws Error unless it is positive, and finite as a float.
double read_rescaling(const Json& settings);

void read_colors(const Json& settings, const Channels& mean, const Channels& deviation, PatchRules& rules);

/// The same where each step is rounded to bf16.
void read_bf16_colors(const Json& settings, const Channels& mean, const Channels& deviation, PatchRules& rules);

}  // namespace kvcal
