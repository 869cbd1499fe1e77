#include "solve/format.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/number_text.h"

namespace kvcal {
namespace {

// The FP8 grids are those of the OCP 8-bit floating point specification (FN) and of the FNUZ variant. int8 is a grid of
// step 1 up to 2^7; its "smallest normal" is where half a step is 1/16 of the value, as in a format with three mantissa
// bits.
constexpr std::array kFormats = {
    NumberFormat{"fp8_e4m3", -6, 3, 448, 0x1p-6, 0x1p-9, 2, "pow2"},
    NumberFormat{"fp8_e4m3fnuz", -7, 3, 240, 0x1p-7, 0x1p-10, 2, "pow2"},
    NumberFormat{"int8", 7, 7, 127, 8, 1, 1, "absmax"},
};

constexpr NumberFormat kE5m2 = {"fp8_e5m2", -14, 2, 57344, 0x1p-14, 0x1p-16, 2, "pow2"};

double power_of_two(int exponent) { return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52); }

bool is_integer(const NumberFormat& format) { return format.name == "int8"; }

}  // namespace

const NumberFormat& number_format(std::string_view name) {
  if (name == "nvfp4" || name == "int4")
    fail("number format " + std::string(name) +
         " is not available: its scales follow the data, so there is only an error to estimate (kvcal stats "
         "--formats); choose fp8_e4m3, fp8_e4m3fnuz or int8");
  const auto found = std::find_if(kFormats.begin(), kFormats.end(), [&](const auto& f) { return f.name == name; });
  if (found == kFormats.end()) fail_unknown("number format", name, number_format_names());
  return *found;
}

const NumberFormat& fp8_e5m2() { return kE5m2; }

std::vector<std::string> number_format_names() {
  std::vector<std::string> names;
  for (const NumberFormat& f : kFormats) names.emplace_back(f.name);
  return names;
}

double round_to(const NumberFormat& format, double y) {
  if (std::isnan(y)) return y;
  const double magnitude = std::fabs(y);
  if (magnitude >= format.max) return std::copysign(format.max, y);
  const int exponent = static_cast<int>(std::bit_cast<uint64_t>(magnitude) >> 52) - 1023;
  const int step_exponent = std::max(exponent, format.min_exponent) - format.mantissa_bits;
  const double steps = magnitude * power_of_two(-step_exponent);  // exact, below 2^8
  // Adding 2^52 leaves no room for a fraction: the addition itself rounds to nearest, ties to even.
  return std::copysign((steps + 0x1p52 - 0x1p52) * power_of_two(step_exponent), y);
}

double round_trip(const NumberFormat& format, double x, double scale) { return scale * round_to(format, x / scale); }

double decode(const NumberFormat& format, uint8_t code) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (is_integer(format)) return code == 0x80 ? kNan : static_cast<double>(static_cast<int8_t>(code));
  const bool fnuz = format.name == "fp8_e4m3fnuz";
  if (fnuz ? code == 0x80 : (code & 0x7F) == 0x7F) return kNan;
  const int exponent = (code >> 3) & 15;
  const int mantissa = (code & 7) + (exponent > 0 ? 8 : 0);
  const double magnitude = mantissa * power_of_two(std::max(exponent, 1) - 1 + format.min_exponent - 3);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

int free_octaves(const NumberFormat& format) { return format.default_headroom > 1 ? 2 : 0; }

int placing_exponent(double largest, const NumberFormat& format) {
  if (largest == 0) return 0;
  const double highest = std::ldexp(format.max, -free_octaves(format));
  int exponent = std::ilogb(highest) - std::ilogb(largest);
  while (std::ldexp(largest, exponent) > highest) --exponent;
  while (std::ldexp(largest, exponent + 1) <= highest) ++exponent;
  return exponent;
}

float scale_rounded_up(double scale) {
  if (!(scale > 0) || scale > static_cast<double>(FLT_MAX))
    fail("a scale of " + (std::isfinite(scale) ? shortest_double(scale) : "infinity or NaN") +
         " is no positive float32");
  float rounded = static_cast<float>(scale);
  if (static_cast<double>(rounded) < scale) rounded = std::bit_cast<float>(std::bit_cast<uint32_t>(rounded) + 1);
  if (!std::isnormal(rounded))
    fail("a scale of " + shortest_double(scale) + " is outside the normal float32 numbers (from " +
         shortest_float(FLT_MIN) + "): servers would flush it to zero");
  return rounded;
}

}  // namespace kvcal
