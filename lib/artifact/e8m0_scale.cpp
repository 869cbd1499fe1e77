#include "artifact/e8m0_scale.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "solve/format.h"

namespace kvcal {
namespace {

/// What is measured is a bf16 number, and its scale a float32 just above a 127th of it.
double nearest_bf16(double x) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  return std::bit_cast<float>((bits + 0x8000U) & 0xFFFF0000U);
}

}  // namespace

bool has_ranges(const ArtifactQuantization& quantization) { return quantization.policy == "absmax"; }

std::vector<int> value_exponents(const ArtifactSite& value, const ArtifactQuantization& quantization) {
  const NumberFormat& e4m3 = number_format("fp8_e4m3");
  const double most = value.absmax, least = std::ldexp(most, -kMostPlacingSpread);
  const double of_one = quantization.max / quantization.headroom.value_or(1);
  const bool one_is_dead = of_one > most || nearest_bf16(of_one) != of_one;  // then no measured channel has it
  std::vector<int> exponents;
  exponents.reserve(value.scale_per_channel.size());
  for (const float scale : value.scale_per_channel) {
    const double range = nearest_bf16(scale * quantization.max / quantization.headroom.value_or(1));
    // A channel that was zero throughout has scale 1.
    const bool is_dead = scale == 1 && one_is_dead;
    exponents.push_back(is_dead ? 0 : -placing_exponent(std::clamp(range, least, most), e4m3));
  }
  return exponents;
}

}  // namespace kvcal
