#include "vision/patch_processor.h"

#include <cmath>
#include <string>

#include "base/json.h"
#include "vision/resize.h"

namespace kvcal {
namespace {

constexpr int64_t kMostPatches = int64_t{1} << 20, kBicubic = 3;
constexpr double kMostSlender = 200;

/// The image processor's own object: published files have it alone, transformers 5 saves all processors in one.
Json read_settings(const std::filesystem::path& folder) {
  std::error_code ignored;
  if (const auto all = folder / "processor_config.json"; std::filesystem::exists(all, ignored)) {
    const Json config = read_json_file(all);
    if (const Json* image = find_member(config, "image_processor"); image && image->is_object()) return *image;
  }
  const auto own = folder / "preprocessor_config.json";
  if (!std::filesystem::exists(own, ignored))
    fail("pictures need preprocessor_config.json, which " + quoted(folder.string()) + " has not");
  return read_json_file(own);
}

void check_steps(const Json& settings) {
  const std::string type = get_string_or(settings, "image_processor_type", "Qwen2VLImageProcessor");
  if (!type.starts_with("Qwen2VLImageProcessor"))
    fail("image_processor_type is " + quoted(type) + ", expected Qwen2VLImageProcessor");
  for (const char* step : {"do_resize", "do_rescale", "do_normalize", "do_convert_rgb"})
    if (!get_bool_or(settings, step, true)) fail(std::string(step) + " is false, expected true");
  if (const int64_t filter = get_int_or(settings, "resample", kBicubic); filter != kBicubic)
    fail("resample is " + std::to_string(filter) + ", expected 3 (bicubic)");
}

void check_shape(const Json& settings, const PatchShape& shape) {
  const auto expect = [&](const char* key, int64_t fallback, int64_t wanted) {
    const int64_t value = get_int_or(settings, key, fallback);
    if (value != wanted)
      fail(std::string(key) + " is " + std::to_string(value) + ", the model's tower has " + std::to_string(wanted));
  };
  expect("patch_size", 14, shape.size);
  expect("merge_size", 2, shape.merge);
  expect("temporal_patch_size", 2, shape.frames);
}

/// Bounds on the pixels of a picture, by their newer name or their older one.
int64_t read_pixels(const Json& settings, const char* edge, const char* older, int64_t fallback) {
  const Json* size = find_member(settings, "size");
  int64_t pixels = size && size->is_object() ? get_int_or(*size, edge, fallback, "size.") : fallback;
  pixels = get_int_or(settings, older, pixels);
  if (pixels < 1 || pixels > kMostPixels)
    fail(std::string(older) + " is " + std::to_string(pixels) + ", expected 1 to " + std::to_string(kMostPixels));
  return pixels;
}

std::array<float, 3> read_channels(const Json& settings, const char* key, std::array<double, 3> fallback, float scale) {
  const Json* given = find_member(settings, key);
  if (given && (!given->is_array() || given->size() != 3)) fail(std::string(key) + " is not a list of three numbers");
  std::array<float, 3> out{};
  for (size_t c = 0; c < out.size(); ++c) {
    if (given && !(*given)[c].is_number()) fail(std::string(key) + " is not a list of three numbers");
    out[c] = static_cast<float>(given ? (*given)[c].get<double>() : fallback[c]) * scale;
    if (!std::isfinite(out[c])) fail(std::string(key) + " holds a number that is not finite");
  }
  return out;
}

/// Halves go to the even neighbor, as Python rounds.
int64_t rounded(double x) { return static_cast<int64_t>(std::nearbyint(x)); }

}  // namespace

PatchProcessor PatchProcessor::load(const std::filesystem::path& folder, const PatchShape& shape) {
  const Json settings = read_settings(folder);
  return while_doing("reading the image processor of " + quoted(folder.string()), [&] {
    check_steps(settings);
    check_shape(settings, shape);
    PatchProcessor p;
    p.shape_ = shape;
    p.least_pixels_ = read_pixels(settings, "shortest_edge", "min_pixels", 56 * 56);
    p.most_pixels_ = read_pixels(settings, "longest_edge", "max_pixels", 28 * 28 * 1280);
    const double factor = get_number_or(settings, "rescale_factor", 1.0 / 255);
    const float of_bytes = static_cast<float>(1.0 / factor);
    p.mean_ = read_channels(settings, "image_mean", {0.48145466, 0.4578275, 0.40821073}, of_bytes);
    p.deviation_ = read_channels(settings, "image_std", {0.26862954, 0.26130258, 0.27577711}, of_bytes);
    for (const float d : p.deviation_)
      if (d == 0) fail("image_std holds 0");
    return p;
  });
}

PatchGrid PatchProcessor::grid_of(const ImageSize& size) const {
  const auto h = static_cast<double>(size.height), w = static_cast<double>(size.width);
  const int64_t square = shape_.size * shape_.merge;
  const auto side = static_cast<double>(square);
  if (std::max(h, w) / std::min(h, w) > kMostSlender)
    fail("is more than " + std::to_string(static_cast<int>(kMostSlender)) + " times as long as wide");
  int64_t rows = rounded(h / side), columns = rounded(w / side);
  if (rows * columns * square * square > most_pixels_) {
    const double shrink = std::sqrt(h * w / static_cast<double>(most_pixels_));
    rows = std::max<int64_t>(1, static_cast<int64_t>(std::floor(h / shrink / side)));
    columns = std::max<int64_t>(1, static_cast<int64_t>(std::floor(w / shrink / side)));
  } else if (rows * columns * square * square < least_pixels_) {
    const double grow = std::sqrt(static_cast<double>(least_pixels_) / (h * w));
    rows = static_cast<int64_t>(std::ceil(h * grow / side));
    columns = static_cast<int64_t>(std::ceil(w * grow / side));
  }
  const PatchGrid grid{rows * shape_.merge, columns * shape_.merge};
  if (grid.n_patches() < 1 || grid.n_patches() > kMostPatches)
    fail("becomes " + std::to_string(grid.n_patches()) + " patches, expected 1 to " + std::to_string(kMostPatches));
  return grid;
}

std::vector<float> PatchProcessor::patches_of(const Image& given) const {
  const PatchGrid grid = grid_of(given.size);
  const int64_t size = shape_.size, frames = shape_.frames;
  const Image image = resized(given, {grid.height * size, grid.width * size});
  std::vector<float> out;
  out.reserve(static_cast<size_t>(grid.n_patches() * shape_.values()));
  const auto patch = [&](int64_t row, int64_t column) {
    for (size_t c = 0; c < 3; ++c)
      for (int64_t frame = 0; frame < frames; ++frame)
        for (int64_t y = 0; y < size; ++y)
          for (int64_t x = 0; x < size; ++x) {
            const int64_t pixel = (row * size + y) * image.size.width + column * size + x;
            out.push_back((static_cast<float>(image.rgb[static_cast<size_t>(pixel) * 3 + c]) - mean_[c]) /
                          deviation_[c]);
          }
  };
  for (int64_t i = 0; i < grid.n_patches(); ++i) {
    const PatchPlace place = place_of(i, grid, shape_.merge);
    patch(place.row, place.column);
  }
  return out;
}

std::string PatchProcessor::description() const {
  Json all = {shape_.size, shape_.merge, shape_.frames, least_pixels_, most_pixels_};
  for (size_t c = 0; c < mean_.size(); ++c) all.insert(all.end(), {mean_[c], deviation_[c]});
  return all.dump();
}

}  // namespace kvcal
