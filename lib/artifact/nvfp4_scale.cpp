#include "artifact/nvfp4_scale.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace kvcal {

float nvfp4_global_scale(float absmax) {
  if (absmax == 0) return 1;
  constexpr double kE4m3Max = 448;
  const double exact = static_cast<double>(absmax) / kE4m3Max;
  const auto nearest = static_cast<float>(exact);
  return bf16_rounded_up(static_cast<double>(nearest) < exact ? std::nextafter(nearest, INFINITY) : nearest);
}

float bf16_rounded_up(float scale) {
  const auto bits = std::bit_cast<uint32_t>(scale);
  return std::bit_cast<float>((bits + 0xFFFFu) & 0xFFFF0000u);
}

}  // namespace kvcal
