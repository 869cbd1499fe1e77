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

/// x rounded to so many bits of mantissa: the nearest value, ties to even, at most `most` in magnitude, NaN stays NaN.
/// Below least_normal the steps are those of `steps`: the last bit of that number.
template <int kMantissaBits>
inline float round_to_grid(float x, float least_normal, float steps, float most) {
  constexpr uint32_t kDropped = 23 - kMantissaBits, kHalf = (1u << kDropped >> 1) - 1;
  const float magnitude = std::fabs(x);
  if (!(magnitude < most)) return std::isnan(x) ? x : std::copysign(most, x);
  if (magnitude < least_normal) return std::copysign((magnitude + steps) - steps, x);
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + kHalf + ((bits >> kDropped) & 1u)) & ~((1u << kDropped) - 1));
}

/// E4M3, at most 448.
inline float round_to_e4m3(float x) { return round_to_grid<3>(x, 0x1p-6f, 0x1.8p14f, 448.0f); }
/// AMD's E4M3 with a bias of 8, at most 240.
inline float round_to_e4m3fnuz(float x) { return round_to_grid<3>(x, 0x1p-7f, 0x1.8p13f, 240.0f); }
/// E5M2, at most 57344: saturating.
inline float round_to_e5m2(float x) { return round_to_grid<2>(x, 0x1p-14f, 0x1.8p7f, 57344.0f); }
/// E2M1, at most 6.
inline float round_to_e2m1(float x) { return round_to_grid<1>(x, 1.0f, 0x1.8p22f, 6.0f); }
/// Whole numbers, at most 127.
inline float round_to_int8(float x) { return round_to_grid<7>(x, 128.0f, 0x1.8p23f, 127.0f); }

/// Whole numbers, at most 32767.
inline float round_to_int16(float x) { return round_to_grid<15>(x, 32768.0f, 0x1.8p23f, 32767.0f); }

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
