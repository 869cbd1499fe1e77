#include "tensor/dtype.h"

#include <array>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace kvcal {
namespace {

struct Row {
  DType type;
  int bits;
  std::string_view name;
};

constexpr std::array<Row, 17> kTypes = {{{DType::F64, 64, "F64"},
                                         {DType::F32, 32, "F32"},
                                         {DType::F16, 16, "F16"},
                                         {DType::BF16, 16, "BF16"},
                                         {DType::F8E4M3, 8, "F8_E4M3"},
                                         {DType::F8E5M2, 8, "F8_E5M2"},
                                         {DType::F8E8M0, 8, "F8_E8M0"},
                                         {DType::F4, 4, "F4"},
                                         {DType::I64, 64, "I64"},
                                         {DType::I32, 32, "I32"},
                                         {DType::I16, 16, "I16"},
                                         {DType::I8, 8, "I8"},
                                         {DType::U64, 64, "U64"},
                                         {DType::U32, 32, "U32"},
                                         {DType::U16, 16, "U16"},
                                         {DType::U8, 8, "U8"},
                                         {DType::Bool, 8, "BOOL"}}};

const Row& row_of(DType t) { return kTypes[static_cast<size_t>(t)]; }

template <class T>
T load(const void* src, size_t i) {  // checkpoints do not promise alignment
  T x;
  std::memcpy(&x, static_cast<const char*>(src) + i * sizeof(T), sizeof(T));
  return x;
}

template <class Store>
void convert(DType from, const void* src, size_t n, Store store) {
  switch (from) {
    case DType::F32:
      for (size_t i = 0; i < n; ++i) store(i, load<float>(src, i));
      return;
    case DType::BF16:
      for (size_t i = 0; i < n; ++i) store(i, to_float(load<bf16>(src, i)));
      return;
    case DType::F16:
      for (size_t i = 0; i < n; ++i) store(i, to_float(load<f16>(src, i)));
      return;
    case DType::F64:
      for (size_t i = 0; i < n; ++i) store(i, static_cast<float>(load<double>(src, i)));
      return;
    default:
      fail("cannot read " + std::string(name_of(from)) + " values as floating-point numbers");
  }
}

}  // namespace

int bits_of(DType t) { return row_of(t).bits; }

size_t size_of(DType t) {
  assert(row_of(t).bits >= 8);
  return static_cast<size_t>(row_of(t).bits) / 8;
}

std::string_view name_of(DType t) { return row_of(t).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Row& r : kTypes)
    if (r.name == name) return r.type;
  return std::nullopt;
}

float stored_as(DType t, float x) {
  if (t == DType::F32) return x;
  if (t == DType::BF16) return round_to_bf16(x);
  assert(t == DType::F16);
  const float magnitude = std::abs(x);
  if (!(magnitude < 65520.0f)) return std::isnan(x) ? x : std::copysign(std::numeric_limits<float>::infinity(), x);
  // Below the least normal half all are multiples of 2^-24, which is how far floats from 0.5 on lie apart.
  if (magnitude < 0x1p-14f) return std::copysign((magnitude + 0.5f) - 0.5f, x);
  const uint32_t u = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((u + 0xFFFu + ((u >> 13) & 1u)) & ~0x1FFFu);
}

float to_float(f16 x) {
  const uint32_t sign = uint32_t{x.bits & 0x8000u} << 16;
  const uint32_t exponent = (x.bits >> 10) & 0x1Fu, mantissa = x.bits & 0x3FFu;
  if (exponent == 0x1F) return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
  const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;  // zero or subnormal
  return sign ? -magnitude : magnitude;
}

void convert_to_float(DType from, const void* src, float* dst, size_t n) {
  if (from == DType::F32 && n > 0) {
    std::memcpy(dst, src, n * sizeof(float));
    return;
  }
  convert(from, src, n, [dst](size_t i, float x) { dst[i] = x; });
}

void convert_to_bf16(DType from, const void* src, bf16* dst, size_t n) {
  if (from == DType::BF16 && n > 0) {
    std::memcpy(dst, src, n * sizeof(bf16));
    return;
  }
  convert(from, src, n, [dst](size_t i, float x) { dst[i] = to_bf16(x); });
}

}  // namespace kvcal
