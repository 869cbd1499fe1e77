#include "tensor/small_floats.h"

#include <cmath>
#include <limits>

namespace kvcal {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// The value of an IEEE-like code without special exponents.
float ieee_value(int code, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = code & ((1 << mantissa_bits) - 1);
  const bool negative = (code >> (exponent_bits + mantissa_bits)) & 1;
  const int significand = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
  const float magnitude =
      std::ldexp(static_cast<float>(significand), (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
  return negative ? -magnitude : magnitude;
}

template <int kExponent, int kMantissa>
auto all_values() {
  std::array<float, size_t{2} << (kExponent + kMantissa)> values;
  for (size_t code = 0; code < values.size(); ++code)
    values[code] = ieee_value(static_cast<int>(code), kExponent, kMantissa);
  return values;
}

}  // namespace

const std::array<float, 256>& e4m3_values() {
  static const std::array<float, 256> values = [] {
    auto v = all_values<4, 3>();
    v[0x7F] = v[0xFF] = kNan;
    return v;
  }();
  return values;
}

const std::array<float, 256>& e5m2_values() {
  static const std::array<float, 256> values = [] {
    auto v = all_values<5, 2>();
    for (const size_t sign : {0x00, 0x80}) {
      v[sign + 0x7C] = sign ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
      for (const size_t mantissa : {1, 2, 3}) v[sign + 0x7C + mantissa] = kNan;
    }
    return v;
  }();
  return values;
}

const std::array<float, 16>& e2m1_values() {
  static const std::array<float, 16> values = all_values<2, 1>();
  return values;
}

float e8m0_value(uint8_t code) { return code == 255 ? kNan : std::ldexp(1.0f, int{code} - 127); }

}  // namespace kvcal
