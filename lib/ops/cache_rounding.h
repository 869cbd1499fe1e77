// How a server stores the rows of its KV cache, what attention reads back, and what it makes of probabilities.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace kvcal {

/// Largest magnitudes: 448, 240, 57344, 127, 6, of index keys 448; the largest code of the others: 15.
enum class CacheFormat : uint8_t { E4m3, E4m3Fnuz, E5m2, Int8, Nvfp4, Uint4, RotatedInt4, IndexKey };

/// What a row becomes: read · rounded(x / write), in f32. Numbers beyond the format's largest saturate.
///
/// Static: `write` and `read` are F32, where the op runs: [1], [heads] or [heads · dim]. Servers have one scale for
/// both;
///   some multiply and never divide.
/// Dynamic: both are absent, and each row of a head has the scale absmax / largest of the format, of zeros 1.
/// Nvfp4: each 16 channels of a head's row have a block scale b = e4m3(absmax / 6 / write); x becomes read · b ·
///   rounded(x / (write · b)), 0 where b is 0. Static only; dim is a multiple of 16.
/// Uint4, RotatedInt4: dynamic only, with a step s = (most - least) / 15 of a head's row; code(x) = ⌊x + 1/2⌋, from 0
/// to
///   15. As vLLM 0.33.0 stores the values of its TurboQuant cache, and its cache int4_per_token_head.
/// Uint4: x becomes code((x - least) / s) · f16(s) + f16(least).
/// RotatedInt4: each block of a row, as wide as the largest power of two that divides dim (kMostRotated at most), is
///   multiplied by signs (ops/rotation_signs.h) and by a Hadamard matrix, and rounded to the activation dtype. With
///   zero = code(-least / s), y becomes (code(y · (1 / s) + zero) - zero) · s', s' without the four low bits of s,
///   where servers put the zero. Then the block is turned back.
/// IndexKey: E4M3, dynamic only, with the power of two from max(absmax, 10^-4) / 448 up for a scale. As vLLM 0.33.0 and
///   SGLang 0.5.23 store the keys of an indexer.
struct CacheRounding {
  CacheFormat format = CacheFormat::E4m3;
  Tensor write, read;

  bool is_dynamic() const { return !write; }
};

/// What servers that compute attention in FP8 do to probabilities before those meet values: x becomes
/// e4m3(x · factor) / factor. The sum that outputs are divided by has them unrounded.
struct ProbabilityRounding {
  float factor = 0.0f;      // 0 = they are not rounded so
  bool sinks_last = false;  // a sink joins the sum behind all keys; probabilities are those below the largest key alone
  bool operator==(const ProbabilityRounding&) const = default;
};

constexpr int64_t kNvfp4Block = 16;
constexpr float kLeastUint4Step = 1e-8f, kLeastInt4Step = 1e-6f, kLeastIndexKey = 1e-4f;

constexpr bool in_four_bits(CacheFormat format) {
  return format == CacheFormat::Uint4 || format == CacheFormat::RotatedInt4;
}

/// Formats that have no scale but those of rows.
constexpr bool is_dynamic_only(CacheFormat format) { return in_four_bits(format) || format == CacheFormat::IndexKey; }

constexpr float largest_of(CacheFormat format) {
  switch (format) {
    case CacheFormat::E4m3:
    case CacheFormat::IndexKey:
      return 448.0f;
    case CacheFormat::E4m3Fnuz:
      return 240.0f;
    case CacheFormat::E5m2:
      return 57344.0f;
    case CacheFormat::Int8:
      return 127.0f;
    case CacheFormat::Nvfp4:
      return 6.0f;
    case CacheFormat::Uint4:
    case CacheFormat::RotatedInt4:
      return 15.0f;
  }
  return 0;
}

}  // namespace kvcal
