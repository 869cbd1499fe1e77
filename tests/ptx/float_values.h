// What the ISA says of single floating-point values.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace ptx {

/// NaN results of f32 have one pattern; those of f64 keep what the host makes.
inline float canonical(float x) { return x != x ? std::bit_cast<float>(uint32_t{0x7FFFFFFF}) : x; }
inline double canonical(double x) { return x; }

/// .ftz: subnormal numbers are zero, with their sign.
inline float flushed(float x) { return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x; }

}  // namespace ptx
