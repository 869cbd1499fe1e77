// Weights from the codes and scales that a checkpoint stores. A thread makes 16 neighbours of a row. A value is its
// code times its scale in f32, rounded to bf16 once: the bits are those of the processor's decoding
// (checkpoint/formats).
#include "kernels/dequantize.h"
#include "kernels/device/real.cuh"
#include "kernels/runtime/launch.h"

namespace kvcal::cuda {
namespace {

constexpr int kDecodeThreads = 256, kDecoded = 16;

// ---------------------------------------------------------------- codes

// Exponent and mantissa stand where a float has its own, less their distance in bias, which the product adds: exact,
// also for what is below the least normal.
__device__ inline float e4m3_value(uint32_t code) {
  const uint32_t magnitude = code & 0x7Fu;
  const float value = __uint_as_float(magnitude << 20) * 0x1p120f;
  return __uint_as_float(magnitude == 0x7Fu ? 0x7FC00000u : __float_as_uint(value) | (code & 0x80u) << 24);
}

__device__ inline float e5m2_value(uint32_t code) {
  const uint32_t magnitude = code & 0x7Fu;
  const float value = __uint_as_float(magnitude << 21) * 0x1p112f;
  const uint32_t special = magnitude == 0x7Cu ? 0x7F800000u : 0x7FC00000u;
  return __uint_as_float((magnitude >= 0x7Cu ? special : __float_as_uint(value)) | (code & 0x80u) << 24);
}

__device__ inline float e2m1_value(uint32_t code) {
  return __uint_as_float(__float_as_uint(__uint_as_float((code & 7u) << 22) * 0x1p126f) | (code & 8u) << 28);
}

template <WeightCode kCode>
__device__ inline float value_of(uint32_t code) {
  if constexpr (kCode == WeightCode::E4M3) return e4m3_value(code);
  if constexpr (kCode == WeightCode::E5M2) return e5m2_value(code);
  if constexpr (kCode == WeightCode::Int8) return static_cast<float>(static_cast<int8_t>(code));
  if constexpr (kCode == WeightCode::E2M1) return e2m1_value(code);
  if constexpr (kCode == WeightCode::Uint8Less128) return static_cast<float>(static_cast<int>(code) - 128);
  if constexpr (kCode == WeightCode::Uint4Less8) return static_cast<float>(static_cast<int>(code) - 8);
}

template <WeightCode kCode>
constexpr int kBitsOf = kCode == WeightCode::E2M1 || kCode == WeightCode::Uint4Less8 ? 4 : 8;

// ---------------------------------------------------------------- scales

__device__ inline float f16_value(uint32_t half) {  // finite: the reader has looked
  return __uint_as_float(__float_as_uint(__uint_as_float((half & 0x7FFFu) << 13) * 0x1p112f) | (half & 0x8000u) << 16);
}

__device__ inline float stored_scale(DType type, const void* scales, uint32_t i) {
  switch (type) {
    case DType::F32:
      return static_cast<const float*>(scales)[i];
    case DType::BF16:
      return widen(static_cast<const bf16*>(scales)[i]);
    case DType::F16:
      return f16_value(static_cast<const f16*>(scales)[i].bits);
    case DType::F8E4M3:
      return e4m3_value(static_cast<const uint8_t*>(scales)[i]);
    default:
      break;
  }
  const uint32_t exponent = static_cast<const uint8_t*>(scales)[i];  // E8M0: 2^(code - 127)
  return __uint_as_float(exponent == 0 ? 0x00400000u : exponent << 23);
}

__device__ inline float scale_at(const StoredRows& w, uint32_t row, uint32_t column) {
  const uint32_t i = (w.row_in_scales + row) / w.rows_of_scale * w.n_scale_columns + column / w.columns_of_scale;
  const float scale = stored_scale(w.scale_type, w.scales, i);
  if (w.global == GlobalScale::None) return scale;
  return w.global == GlobalScale::Multiplied ? scale * w.global_scale : scale / w.global_scale;
}

// ---------------------------------------------------------------- rows

/// The row of the result that a stored row makes, or -1.
__device__ inline int64_t row_of_result(const DecodedRows& to, uint32_t row) {
  int64_t i = to.first_stored + row;
  if (to.group > 1) {
    const uint32_t at = static_cast<uint32_t>(i), group = at / to.group, part = at % to.group - to.offset;
    if (part >= to.n_of_group) return -1;  // also where it wraps
    i = int64_t{group} * to.n_of_group + part;
  }
  i -= to.first_row;
  return i < to.n_rows ? i : -1;  // below 0 where it is not wanted either
}

template <WeightCode kCode>
__device__ inline uint32_t code_at(const uint8_t* codes, uint32_t column) {
  if constexpr (kBitsOf<kCode> == 8) return codes[column];
  return codes[column / 2] >> (column % 2 * 4) & 15u;
}

/// 16 values of one scale, and codes and results that begin at addresses of whole vectors.
template <WeightCode kCode>
__device__ inline void decode_sixteen(const uint8_t* codes, float scale, float* values) {
  constexpr int kBits = kBitsOf<kCode>, kWords = kDecoded * kBits / 32, kOfWord = 32 / kBits;
  uint32_t words[kWords];
  *reinterpret_cast<Pack<uint32_t, kWords>*>(words) = *reinterpret_cast<const Pack<uint32_t, kWords>*>(codes);
#pragma unroll
  for (int j = 0; j < kDecoded; ++j)
    values[j] = value_of<kCode>(words[j / kOfWord] >> (j % kOfWord * kBits) & ((1u << kBits) - 1)) * scale;
}

__device__ inline void write_sixteen(const float* values, bf16* to) {
  Pack<uint32_t, 4> halves[2];
#pragma unroll
  for (int j = 0; j < kDecoded / 2; ++j) halves[j / 4].values[j % 4] = narrow_pair(values[2 * j], values[2 * j + 1]);
  reinterpret_cast<Pack<uint32_t, 4>*>(to)[0] = halves[0];
  reinterpret_cast<Pack<uint32_t, 4>*>(to)[1] = halves[1];
}

__device__ inline void write_sixteen(const float* values, float* to) {
#pragma unroll
  for (int j = 0; j < kDecoded; j += 4) {
    Pack<float, 4> four;
#pragma unroll
    for (int k = 0; k < 4; ++k) four.values[k] = rounded_to<bf16>(values[j + k]);
    *reinterpret_cast<Pack<float, 4>*>(to + j) = four;
  }
}

template <WeightCode kCode, class T, bool kWhole>
__global__ void dequantize_kernel(StoredRows w, DecodedRows to) {
  const uint32_t packs = (w.columns + kDecoded - 1) / kDecoded, pack = blockIdx.x * kDecodeThreads + threadIdx.x;
  const uint32_t row = pack / packs, first = pack % packs * kDecoded;
  if (row >= w.n_rows) return;
  const int64_t result_row = row_of_result(to, row);
  if (result_row < 0) return;
  const uint8_t* codes = static_cast<const uint8_t*>(w.codes) + int64_t{row} * w.row_bytes;
  T* result = static_cast<T*>(to.data) + result_row * to.row_stride;
  if constexpr (kWhole) {
    float values[kDecoded];
    decode_sixteen<kCode>(codes + first * kBitsOf<kCode> / 8, scale_at(w, row, first), values);
    write_sixteen(values, result + first);
  } else {
    const uint32_t end = first + kDecoded < w.columns ? first + kDecoded : w.columns;
    for (uint32_t c = first; c < end; ++c) {
      const int64_t column = int64_t{c} - to.first_column;
      if (column < 0 || column >= to.n_columns) continue;
      const float value = value_of<kCode>(code_at<kCode>(codes, c)) * scale_at(w, row, c);
      result[column * to.column_stride] = narrow<T>(rounded_to<bf16>(value));
    }
  }
}

// ---------------------------------------------------------------- launchers

bool whole(const StoredRows& w, const DecodedRows& to) {
  const bool plain = to.column_stride == 1 && to.first_column == 0 && to.n_columns == w.columns;
  return plain && w.columns % kDecoded == 0 && w.columns_of_scale % kDecoded == 0 && w.row_bytes % 16 == 0 &&
         reinterpret_cast<uintptr_t>(to.data) % 16 == 0 && reinterpret_cast<uintptr_t>(w.codes) % 16 == 0;
}

template <WeightCode kCode, class T>
void dequantize_as(const StoredRows& w, const DecodedRows& to, cudaStream_t stream) {
  const int64_t packs = (w.columns + kDecoded - 1) / kDecoded;
  const dim3 grid(n_blocks(w.n_rows * packs, kDecodeThreads)), block(kDecodeThreads);
  if (whole(w, to))
    launch(KVCAL_KERNEL(dequantize_kernel<kCode, T, true>), grid, block, 0, stream, w, to);
  else
    launch(KVCAL_KERNEL(dequantize_kernel<kCode, T, false>), grid, block, 0, stream, w, to);
}

template <class T>
void dequantize_as(const StoredRows& w, const DecodedRows& to, cudaStream_t stream) {
  switch (w.code) {
    case WeightCode::E4M3:
      return dequantize_as<WeightCode::E4M3, T>(w, to, stream);
    case WeightCode::E5M2:
      return dequantize_as<WeightCode::E5M2, T>(w, to, stream);
    case WeightCode::Int8:
      return dequantize_as<WeightCode::Int8, T>(w, to, stream);
    case WeightCode::E2M1:
      return dequantize_as<WeightCode::E2M1, T>(w, to, stream);
    case WeightCode::Uint8Less128:
      return dequantize_as<WeightCode::Uint8Less128, T>(w, to, stream);
    case WeightCode::Uint4Less8:
      return dequantize_as<WeightCode::Uint4Less8, T>(w, to, stream);
  }
}

}  // namespace

void dequantize(const StoredRows& stored, const DecodedRows& to, cudaStream_t stream) {
  to.dtype == DType::BF16 ? dequantize_as<bf16>(stored, to, stream) : dequantize_as<float>(stored, to, stream);
}

}  // namespace kvcal::cuda
