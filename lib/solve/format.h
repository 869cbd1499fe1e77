// The number formats a cache may store, as the grids that values are rounded to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvcal {

/// A symmetric grid: magnitude y lies between multiples of 2^(max(floor(log2 y), min_exponent) - mantissa_bits).
struct NumberFormat {
  std::string_view name;
  int min_exponent = 0, mantissa_bits = 0;
  double max = 0;                   // largest magnitude that can be stored
  double smallest_normal = 0;       // from here up one rounding moves a value by at most 1/16 of it
  double smallest_subnormal = 0;    // smallest magnitude but zero; half of it and below round to zero
  double default_headroom = 1;      // 2 where room above the largest value costs nothing, 1 where it costs precision
  std::string_view default_policy;  // pow2 where all powers of two round normal values alike, else absmax
};

/// fp8_e4m3 (OCP FN: bias 7, max 448), fp8_e4m3fnuz (bias 8, max 240), int8 (symmetric, -127..127). Throws Error for an
/// unknown name, and for nvfp4 and int4, whose scales follow the data.
const NumberFormat& number_format(std::string_view name);
std::vector<std::string> number_format_names();

/// FP8 E5M2 (OCP: bias 15, max 57344), to compare with: servers that store it load no scales. Its smallest normal
/// number is, as in the others, the step of its subnormals times 2^mantissa_bits; roundings move values by up to 1/8.
const NumberFormat& fp8_e5m2();

/// The nearest value of the grid, ties to the even code; beyond the largest it saturates, infinity included; NaN stays
/// NaN.
double round_to(const NumberFormat& format, double y);

/// What comes back when x is stored and read: scale · round_to(x / scale).
double round_trip(const NumberFormat& format, double x, double scale);

/// The value of an 8-bit code; NaN for codes that mean NaN and for int8's -128, which is never stored.
double decode(const NumberFormat& format, uint8_t code);

/// Octaves that the largest value stays below the format's maximum where a power of two is to place it. Floating point
/// has as many bits at any place, and a cache may meet values that were not measured: two octaves above the largest
/// value, and all of E4M3's other 13 (and its subnormals) below it. Integers lose half of their steps with each octave,
/// so they have none.
int free_octaves(const NumberFormat& format);

/// The exponent e for which largest · 2^e is in (max / 2, max] · 2^-free_octaves; 0 for a largest value of 0.
int placing_exponent(double largest, const NumberFormat& format);

/// Octaves between the exponents of a site: a nearly dead channel has nothing to gain.
constexpr int kMostPlacingSpread = 16;

/// The smallest float32 that is not below `scale`. Throws Error when that is not a normal positive number.
float scale_rounded_up(double scale);

}  // namespace kvcal
