// Arithmetic of two bf16 in a register of 32 bits: each half for itself, rounded once, NaN in one pattern.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ptx/forms.h"

namespace ptx {
namespace {

double wide(uint32_t bits) { return static_cast<double>(std::bit_cast<float>(bits << 16)); }

uint32_t rounded_bits(double x) {
  constexpr int kDigits = 8, kLeastExponent = -133;  // of the last bit of a subnormal
  if (x != x) return 0x7FFF;
  if (x == 0.0 || std::isinf(x)) return std::bit_cast<uint32_t>(static_cast<float>(x)) >> 16;
  const double step = std::ldexp(1.0, std::max(std::ilogb(x) + 1 - kDigits, kLeastExponent));
  const double rounded = std::copysign(std::nearbyint(x / step) * step, x);
  return std::bit_cast<uint32_t>(static_cast<float>(rounded)) >> 16;  // 2^128 is infinite there
}

/// a + b, whose last bit tells that something is below it, so that it can be rounded once more.
double odd_sum(double a, double b) {
  const double sum = a + b, of_b = sum - a, lost = (a - (sum - of_b)) + (b - of_b);
  if (lost == 0.0 || lost != lost || std::isinf(sum) || (std::bit_cast<uint64_t>(sum) & 1) != 0) return sum;
  return std::nextafter(
      sum, lost > 0.0 ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity());
}

struct MultiplyAdd {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    return rounded_bits(odd_sum(wide(a) * wide(b), wide(c)));  // the product is exact
  }
};
/// min.NaN
struct Least {
  uint32_t operator()(uint32_t a, uint32_t b) const {
    const double x = wide(a), y = wide(b);
    if (x != x || y != y) return 0x7FFF;
    if (x == y) return std::signbit(x) ? a : b;
    return x < y ? a : b;
  }
};
/// max: a NaN gives way to a number.
struct Most {
  uint32_t operator()(uint32_t a, uint32_t b) const {
    const double x = wide(a), y = wide(b);
    if (x != x) return y != y ? 0x7FFF : b;
    if (y != y) return a;
    if (x == y) return std::signbit(x) ? b : a;
    return x < y ? b : a;
  }
};

template <class F>
struct Halves {
  template <class... T>
  uint32_t operator()(T... x) const {
    return F{}((x & 0xFFFFU)...) | F{}((x >> 16)...) << 16;
  }
};

}  // namespace

void add_pair_forms(Forms& forms) {
  forms["fma.rn.bf16x2"] = each_lane_of_bits<Halves<MultiplyAdd>, uint32_t, uint32_t, uint32_t, uint32_t>();
  forms["min.NaN.bf16x2"] = each_lane_of_bits<Halves<Least>, uint32_t, uint32_t, uint32_t>();
  forms["max.bf16x2"] = each_lane_of_bits<Halves<Most>, uint32_t, uint32_t, uint32_t>();
}

}  // namespace ptx
