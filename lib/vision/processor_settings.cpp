#include "vision/processor_settings.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

namespace kvcal {
namespace {

float rounded_to_bf16(float x) {  // to nearest, ties to even; of numbers
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7FFFu + ((bits >> 16) & 1u)) & 0xFFFF0000u);
}

/// What becomes of a number of the file, or of its default.
using Conversion = std::function<float(float)>;

std::array<float, 3> read_channels(const Json& settings, const char* key, const Channels& fallback,
                                   const Conversion& converted) {
  const Json* given = find_member(settings, key);
  if (given && (!given->is_array() || given->size() != 3)) fail(std::string(key) + " is not a list of three numbers");
  std::array<float, 3> out{};
  for (size_t c = 0; c < out.size(); ++c) {
    if (given && !(*given)[c].is_number()) fail(std::string(key) + " is not a list of three numbers");
    out[c] = converted(static_cast<float>(given ? (*given)[c].get<double>() : fallback[c]));
    if (!std::isfinite(out[c])) fail(std::string(key) + " holds a number that is not finite");
  }
  return out;
}

struct Normalization {
  std::array<float, 3> mean, deviation;
};

Normalization read_normalization(const Json& settings, const Channels& mean, const Channels& deviation,
                                 const Conversion& converted) {
  if (!get_bool_or(settings, "do_normalize", true)) fail("do_normalize is false, expected true");
  const Normalization n = {read_channels(settings, "image_mean", mean, converted),
                           read_channels(settings, "image_std", deviation, converted)};
  if (std::ranges::count(n.deviation, 0.0f) > 0) fail("image_std holds 0");
  return n;
}

}  // namespace

double read_rescaling(const Json& settings) {
  const double factor = get_number_or(settings, "rescale_factor", 1.0 / 255);
  if (!(factor > 0) || !std::isfinite(static_cast<float>(factor)))
    fail("rescale_factor is " + Json(factor).dump() + ", expected a positive number");
  return factor;
}

void check_steps(const Json& settings, const PatchShape& shape, const NamedFilter& filter) {
  const std::string type = get_string_or(settings, "image_processor_type", shape.processor);
  if (!type.starts_with(shape.processor))
    fail("image_processor_type is " + quoted(type) + ", expected " + std::string(shape.processor));
  for (const char* step : {"do_resize", "do_rescale", "do_convert_rgb"})
    if (!get_bool_or(settings, step, true)) fail(std::string(step) + " is false, expected true");
  if (const int64_t given = get_int_or(settings, "resample", filter.number); given != filter.number)
    fail("resample is " + std::to_string(given) + ", expected " + std::to_string(filter.number) + " (" + filter.name +
         ")");
}

void expect_of_tower(const Json& settings, const char* key, int64_t fallback, int64_t wanted, std::string_view where) {
  const int64_t value = get_int_or(settings, key, fallback, where);
  if (value != wanted)
    fail(std::string(where) + key + " is " + std::to_string(value) + ", the model's tower has " +
         std::to_string(wanted));
}

int64_t read_edge(const Json& settings, const EdgeName& name, int64_t fallback) {
  const std::string of = name.of;
  const Json* given = find_member(settings, name.of);
  if (given && !find_member(*given, name.edge)) fail(of + " has no " + name.edge + ", and what it has is not read");
  const int64_t pixels = given ? get_int(*given, name.edge, of + ".") : fallback;
  if (pixels < 1 || pixels > kMostPixels)
    fail(of + "." + name.edge + " is " + std::to_string(pixels) + ", expected 1 to " + std::to_string(kMostPixels));
  return pixels;
}

void expect_edges(const Json& settings, std::initializer_list<EdgeName> names, int64_t fallback, int64_t wanted) {
  for (const EdgeName& name : names)
    if (const int64_t pixels = read_edge(settings, name, fallback); pixels != wanted)
      fail(std::string(name.of) + "." + name.edge + " is " + std::to_string(pixels) + ", the model's tower has " +
           std::to_string(wanted));
}

void read_colors(const Json& settings, const Channels& mean, const Channels& deviation, PatchRules& rules) {
  const auto of_bytes = static_cast<float>(1.0 / read_rescaling(settings));
  const Normalization n = read_normalization(settings, mean, deviation, [=](float x) { return x * of_bytes; });
  for (size_t c = 0; c < n.mean.size(); ++c)
    for (size_t byte = 0; byte < 256; ++byte)
      rules.colors[c][byte] = (static_cast<float>(byte) - n.mean[c]) / n.deviation[c];
}

void read_bf16_colors(const Json& settings, const Channels& mean, const Channels& deviation, PatchRules& rules) {
  const auto unit = static_cast<float>(read_rescaling(settings));
  const Normalization n = read_normalization(settings, mean, deviation, rounded_to_bf16);
  for (size_t c = 0; c < n.mean.size(); ++c)
    for (size_t byte = 0; byte < 256; ++byte) {
      const float centered = rounded_to_bf16(rounded_to_bf16(static_cast<float>(byte) * unit) - n.mean[c]);
      rules.colors[c][byte] = rounded_to_bf16(centered / n.deviation[c]);
    }
}

}  // namespace kvcal
