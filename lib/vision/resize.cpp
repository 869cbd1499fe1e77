#include "vision/resize.h"

#include <algorithm>
#include <cmath>

#include "base/portable_math.h"

namespace kvcal {
namespace {

constexpr double kPi = 3.14159265358979323846;

double bilinear(double x) { return std::max(0.0, 1.0 - x); }

double bicubic(double x) {
  constexpr double a = -0.5;
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  if (x < 2.0) return ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
  return 0.0;
}

double sinc(double x) { return x == 0.0 ? 1.0 : portable_sin_pi(x) / (kPi * x); }

double lanczos(double x) { return x < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0; }

// Which pixels of a line make a pixel of the new one, and how much each.
struct Taps {
  int64_t first = 0;
  std::vector<int32_t> weights;  // in units of 2^-bits
};
struct Filter {
  std::vector<Taps> taps;  // [new length]
  int bits = 0;
};

std::vector<double> weights_of(const ResizeKernel& kernel, double center, double shrink, int64_t first, int64_t last) {
  std::vector<double> weights;
  double total = 0;
  for (int64_t i = first; i < last; ++i) {
    weights.push_back(kernel.weight(std::fabs((static_cast<double>(i) - center + 0.5) / shrink)));
    total += weights.back();
  }
  for (double& w : weights) w /= total;
  return weights;
}

// As many bits as let the largest weight fit a signed 16-bit number.
int bits_for(double largest) {
  int bits = 0;
  while (bits < 22 && static_cast<int64_t>(0.5 + largest * static_cast<double>(int64_t{1} << (bits + 1))) < 1 << 15)
    ++bits;
  return bits;
}

Filter make_filter(const ResizeKernel& kernel, int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to), shrink = std::max(scale, 1.0);
  const double support = kernel.radius * shrink;
  Filter filter;
  std::vector<std::vector<double>> all;
  double largest = 0;
  for (int64_t i = 0; i < to; ++i) {
    const double center = scale * (static_cast<double>(i) + 0.5);
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const int64_t last = std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), from);
    all.push_back(weights_of(kernel, center, shrink, first, last));
    for (const double w : all.back()) largest = std::max(largest, w);
    filter.taps.push_back({first, {}});
  }
  filter.bits = kernel.bits > 0 ? kernel.bits : bits_for(largest);
  for (size_t i = 0; i < all.size(); ++i)
    for (const double w : all[i]) {
      const double scaled = w * static_cast<double>(1 << filter.bits);
      filter.taps[i].weights.push_back(static_cast<int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5));
    }
  return filter;
}

// One channel of one new pixel, of values `stride` bytes apart.
uint8_t filtered(const Filter& filter, const Taps& taps, const uint8_t* line, int64_t stride) {
  int32_t sum = 1 << (filter.bits - 1);
  const uint8_t* value = line + taps.first * stride;
  for (const int32_t weight : taps.weights) {
    sum += weight * *value;
    value += stride;
  }
  return static_cast<uint8_t>(std::clamp(sum >> filter.bits, 0, 255));
}

Image with_width(const Image& image, int64_t width, const ResizeKernel& kernel) {
  const Filter filter = make_filter(kernel, image.size.width, width);
  Image out{{image.size.height, width}, std::vector<uint8_t>(static_cast<size_t>(image.size.height * width * 3))};
  uint8_t* to = out.rgb.data();
  for (int64_t y = 0; y < image.size.height; ++y)
    for (const Taps& taps : filter.taps)
      for (int c = 0; c < 3; ++c) *to++ = filtered(filter, taps, image.rgb.data() + y * image.size.width * 3 + c, 3);
  return out;
}

Image with_height(const Image& image, int64_t height, const ResizeKernel& kernel) {
  const Filter filter = make_filter(kernel, image.size.height, height);
  const int64_t row = image.size.width * 3;
  Image out{{height, image.size.width}, std::vector<uint8_t>(static_cast<size_t>(height * row))};
  uint8_t* to = out.rgb.data();
  for (const Taps& taps : filter.taps)
    for (int64_t i = 0; i < row; ++i) *to++ = filtered(filter, taps, image.rgb.data() + i, row);
  return out;
}

}  // namespace

const ResizeKernel kBilinear = {1, bilinear}, kBicubic = {2, bicubic}, kLanczos = {3, lanczos};
const ResizeKernel kPillowBicubic = {2, bicubic, 22};

Image resized(const Image& image, const ImageSize& size, const ResizeKernel& kernel) {
  Image out = size.width == image.size.width ? image : with_width(image, size.width, kernel);
  return size.height == out.size.height ? out : with_height(out, size.height, kernel);
}

}  // namespace kvcal
