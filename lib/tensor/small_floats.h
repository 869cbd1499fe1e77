// Floats of 8 and 4 bits as checkpoints store them: FP8 (E4M3FN, E5M2), and the element and scale formats of the OCP
// microscaling specification (E2M1, E8M0).
#pragma once

#include <array>
#include <cstdint>

namespace kvcal {

/// The value of every code: sign 1, exponent 4 (bias 7), mantissa 3; no infinity, 0x7F and 0xFF are NaN, at most 448.
const std::array<float, 256>& e4m3_values();

/// Sign 1, exponent 5 (bias 15), mantissa 2; with infinities, at most 57344.
const std::array<float, 256>& e5m2_values();

/// Sign 1, exponent 2 (bias 1), mantissa 1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
const std::array<float, 16>& e2m1_values();

/// Element i of a row of E2M1 codes, two to a byte, low half first.
inline float e2m1_at(const uint8_t* bytes, int64_t i) { return e2m1_values()[bytes[i / 2] >> (i % 2 * 4) & 15]; }

/// 2^(code - 127); 255 is NaN.
float e8m0_value(uint8_t code);

}  // namespace kvcal
