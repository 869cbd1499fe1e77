// Element types of tensors and their conversions to and from float.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kvcal {

enum class DType : uint8_t {
  F64,
  F32,
  F16,
  BF16,
  F8E4M3,
  F8E5M2,
  F8E8M0,
  F4,
  I64,
  I32,
  I16,
  I8,
  U64,
  U32,
  U16,
  U8,
  Bool
};

/// Bits per element: 64 for F64 .. 4 for F4 (two packed in a byte).
int bits_of(DType t);

/// Bytes per element; an assert for F4.
size_t size_of(DType t);

/// The safetensors spelling: "BF16", "F8_E4M3", ...
std::string_view name_of(DType t);
std::optional<DType> dtype_from_name(std::string_view name);

/// One bfloat16 as its bits: sign 1, exponent 8, mantissa 7.
struct bf16 {
  uint16_t bits;
};

/// One IEEE half as its bits: sign 1, exponent 5, mantissa 10.
struct f16 {
  uint16_t bits;
};

inline float to_float(bf16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }

/// Round to nearest, ties to even; NaN stays NaN (quiet), overflow becomes infinity.
inline bf16 to_bf16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const uint32_t rounded = u + 0x7FFFu + ((u >> 16) & 1u);
  const bool nan = (u & 0x7FFFFFFFu) > 0x7F800000u;
  return {static_cast<uint16_t>(nan ? (u >> 16) | 0x40u : rounded >> 16)};
}

inline float round_to_bf16(float x) { return to_float(to_bf16(x)); }

float to_float(f16 x);

/// What comes back of a number that is stored as F32, BF16 or F16: one rounding to nearest, ties to even; beyond the
/// largest infinity.
float stored_as(DType t, float x);

/// n elements of src (F32, BF16, F16, F64) as float, resp. as bf16 with one rounding.
void convert_to_float(DType from, const void* src, float* dst, size_t n);
void convert_to_bf16(DType from, const void* src, bf16* dst, size_t n);

}  // namespace kvcal
