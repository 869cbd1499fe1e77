// Floats of 8 and 4 bits as checkpoints store them: FP8 (E4M3FN, E5M2), and the element and scale formats of the OCP
// microscaling specification (E2M1, E8M0).
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace kvcal {

/// The value of every code: sign 1, exponent 4 (bias 7), mantissa 3; no infinity, 0x7F and 0xFF are NaN, at most 448.
const std::array<float, 256>& e4m3_values();

/// x rounded to E4M3: the nearest value, ties to even, at most 448 in magnitude. NaN stays NaN.
inline float round_to_e4m3(float x) {
  constexpr float kMost = 448.0f, kLeastNormal = 0x1p-6f;
  constexpr float kSteps = 0x1.8p14f;  // its last bit is 2^-9, the step of the subnormal values
  const float magnitude = std::fabs(x);
  if (!(magnitude < kMost)) return std::isnan(x) ? x : std::copysign(kMost, x);
  if (magnitude < kLeastNormal) return std::copysign((magnitude + kSteps) - kSteps, x);
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7FFFFu + ((bits >> 20) & 1u)) & ~0xFFFFFu);
}

/// Sign 1, exponent 5 (bias 15), mantissa 2; with infinities, at most 57344.
const std::array<float, 256>& e5m2_values();

/// Sign 1, exponent 2 (bias 1), mantissa 1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
const std::array<float, 16>& e2m1_values();

/// Element i of a row of E2M1 codes, two to a byte, low half first.
inline float e2m1_at(const uint8_t* bytes, int64_t i) { return e2m1_values()[bytes[i / 2] >> (i % 2 * 4) & 15]; }

/// 2^(code - 127); 255 is NaN.
float e8m0_value(uint8_t code);

/// The smallest power of two that is not below x, a normal number above 0.
inline float next_power_of_two(float x) {
  return std::bit_cast<float>((std::bit_cast<uint32_t>(x) + 0x7FFFFFu) & 0x7F800000u);
}

}  // namespace kvcal
