#include "fold/power_of_two.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

namespace kvcal {
namespace {

/// Magnitudes as codes: exponent field above `mantissa_bits`, 0 for subnormals; codes beyond `largest` are no numbers.
template <class Code>
struct FloatCodes {
  int mantissa_bits;
  Code sign, largest;

  std::optional<Code> times(Code code, int exponent, Subnormals subnormals) const {
    const Code magnitude = code & static_cast<Code>(~sign), mark = code & sign;
    if (magnitude == 0 || magnitude > largest || exponent == 0) return code;
    const auto hidden = static_cast<uint64_t>(1) << mantissa_bits;
    uint64_t significand = magnitude & (hidden - 1);
    int64_t field = static_cast<int64_t>(magnitude >> mantissa_bits);
    const bool was_normal = field > 0;
    if (was_normal)
      significand |= hidden;
    else
      field = 1;  // the exponent of subnormals
    while (significand < hidden) {
      significand <<= 1;
      --field;
    }
    field += exponent;
    if (field >= 1) {
      if (field > static_cast<int64_t>(largest >> mantissa_bits)) return std::nullopt;
      const auto result =
          static_cast<Code>(static_cast<uint64_t>(field) << mantissa_bits | (significand & (hidden - 1)));
      if (result > largest) return std::nullopt;
      return static_cast<Code>(result | mark);
    }
    if (was_normal && subnormals == Subnormals::Refuse) return std::nullopt;
    const int64_t lost = 1 - field;
    if (lost > mantissa_bits || significand % (static_cast<uint64_t>(1) << lost) != 0) return std::nullopt;
    return static_cast<Code>(static_cast<Code>(significand >> lost) | mark);
  }
};

/// The code is the exponent, with a bias; 255 is NaN.
struct ExponentCodes {
  std::optional<uint8_t> times(uint8_t code, int exponent, Subnormals) const {
    constexpr int kNan = 255;
    if (code == kNan) return code;
    const int64_t sum = int64_t{code} + exponent;
    if (sum < 0 || sum >= kNan) return std::nullopt;
    return static_cast<uint8_t>(sum);
  }
};

template <class Code, class Codes>
bool multiply_all(const Codes& codes, std::byte* numbers, size_t n, int exponent, Subnormals subnormals) {
  for (size_t i = 0; i < n; ++i) {
    Code code;
    std::memcpy(&code, numbers + i * sizeof(Code), sizeof(Code));
    const std::optional<Code> product = codes.times(code, exponent, subnormals);
    if (!product) return false;
    std::memcpy(numbers + i * sizeof(Code), &*product, sizeof(Code));
  }
  return true;
}

bool is_bf16(float x) { return (std::bit_cast<uint32_t>(x) & 0xFFFF) == 0; }

/// The w of 2^exponent · (1 + w), from which the same way leads back.
std::optional<float> gain_times(float w, int exponent) {
  const double gain = 1.0 + static_cast<double>(w), product = std::ldexp(gain, exponent) - 1.0;
  const auto result = static_cast<float>(product);
  const bool is_exact = gain - 1.0 == static_cast<double>(w) && static_cast<double>(result) == product &&
                        std::ldexp(gain, exponent) == product + 1.0;
  const bool is_negative_zero = w == 0 && std::signbit(w);
  if (!is_exact || is_negative_zero || !is_bf16(w) || !is_bf16(result)) return std::nullopt;
  return result;
}

}  // namespace

bool takes_powers(DType type) {
  constexpr DType kTypes[] = {DType::F64,    DType::F32,    DType::BF16,   DType::F16,
                              DType::F8E4M3, DType::F8E5M2, DType::F8E8M0, DType::U8};
  return std::ranges::find(kTypes, type) != std::end(kTypes);
}

bool multiply(DType type, std::byte* numbers, size_t n, int exponent, Subnormals subnormals) {
  const auto all = [&]<class Code>(int mantissa_bits, Code largest) {
    const FloatCodes<Code> codes{mantissa_bits,
                                 std::bit_cast<Code>(std::numeric_limits<std::make_signed_t<Code>>::min()), largest};
    return multiply_all<Code>(codes, numbers, n, exponent, subnormals);
  };
  switch (type) {
    case DType::F64:
      return all(52, uint64_t{0x7FEFFFFFFFFFFFFF});
    case DType::F32:
      return all(23, uint32_t{0x7F7FFFFF});
    case DType::BF16:
      return all(7, uint16_t{0x7F7F});
    case DType::F16:
      return all(10, uint16_t{0x7BFF});
    case DType::F8E4M3:
      return all(3, uint8_t{0x7E});
    case DType::F8E5M2:
      return all(2, uint8_t{0x7B});
    case DType::F8E8M0:
    case DType::U8:
      return multiply_all<uint8_t>(ExponentCodes{}, numbers, n, exponent, subnormals);
    default:
      return false;
  }
}

bool multiply_one_plus(DType type, std::byte* numbers, size_t n, int exponent) {
  if (type != DType::F32 && type != DType::BF16) return false;
  const size_t size = size_of(type), unused = sizeof(float) - size;  // BF16 is the upper half of F32
  for (size_t i = 0; i < n; ++i) {
    uint32_t code = 0;
    std::byte* const at = numbers + i * size;
    std::memcpy(reinterpret_cast<std::byte*>(&code) + unused, at, size);
    const std::optional<float> product = gain_times(std::bit_cast<float>(code), exponent);
    if (!product) return false;
    code = std::bit_cast<uint32_t>(*product);
    std::memcpy(at, reinterpret_cast<std::byte*>(&code) + unused, size);
  }
  return true;
}

}  // namespace kvcal
