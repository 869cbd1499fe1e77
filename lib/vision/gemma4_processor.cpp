#include "vision/gemma4_processor.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace kvcal {
namespace {

constexpr int64_t kTokens[] = {70, 140, 280, 560, 1120};  // that the reference framework knows

int64_t read_most_tokens(const Json& settings) {
  const int64_t most = get_int_or(settings, "max_soft_tokens", 280);
  if (std::ranges::count(kTokens, most) == 0)
    fail("max_soft_tokens is " + std::to_string(most) + ", expected 70, 140, 280, 560 or 1120");
  return most;
}

/// Sides in whole squares, rounded down where the picture had as many pixels as all squares; one that is too slender
/// for that is a line of squares.
PatchGrid grid_of(const ImageSize& size, int64_t most_tokens, const PatchShape& shape) {
  const int64_t side = shape.size * shape.merge, pixels = most_tokens * side * side;
  const double factor = std::sqrt(static_cast<double>(pixels) / static_cast<double>(size.height * size.width));
  const auto squares = [&](int64_t length) {
    return static_cast<int64_t>(std::floor(factor * static_cast<double>(length) / static_cast<double>(side)));
  };
  int64_t rows = squares(size.height), columns = squares(size.width);
  if (rows == 0) {
    rows = 1;
    columns = std::min(size.width / size.height, most_tokens);
  } else if (columns == 0) {
    columns = 1;
    rows = std::min(size.height / size.width, most_tokens);
  }
  return {rows * shape.merge, columns * shape.merge};
}

/// 2 (x - 1/2) of x from 0 to 1, in F32 as the model begins with it.
ColorTable read_colors_of_model(const Json& settings) {
  const auto unit = static_cast<float>(read_rescaling(settings));
  ColorTable table;
  for (size_t byte = 0; byte < table.size(); ++byte) table[byte] = 2 * (static_cast<float>(byte) * unit - 0.5f);
  return table;
}

}  // namespace

PatchRules read_gemma4_processor(const Json& settings, const PatchShape& shape) {
  check_steps(settings, shape, {3, "bicubic"});
  if (get_bool_or(settings, "do_normalize", false)) fail("do_normalize is true, expected false");
  expect_of_tower(settings, "patch_size", 16, shape.size);
  expect_of_tower(settings, "pooling_kernel_size", 3, shape.merge);
  const int64_t most = read_most_tokens(settings);
  PatchRules rules{[=](const ImageSize& size) { return grid_of(size, most, shape); }, {most}, kBicubic};
  rules.colors.fill(read_colors_of_model(settings));
  return rules;
}

}  // namespace kvcal
