// How a server stores the rows of its KV cache, and what attention reads back.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace kvcal {

/// Largest magnitudes: 448, 240, 57344, 127, 6.
enum class CacheFormat : uint8_t { E4m3, E4m3Fnuz, E5m2, Int8, Nvfp4 };

/// What a row becomes: read · rounded(x / write), in f32. Numbers beyond the format's largest saturate.
///
/// Static: `write` and `read` are F32, where the op runs: [1], [heads] or [heads · dim]. Servers have one scale for
/// both;
///   some multiply and never divide.
/// Dynamic: both are absent, and each row of a head has the scale absmax / largest of the format, of zeros 1.
/// Nvfp4: each 16 channels of a head's row have a block scale b = e4m3(absmax / 6 / write); x becomes read · b ·
///   rounded(x / (write · b)), 0 where b is 0. Static only; dim is a multiple of 16.
struct CacheRounding {
  CacheFormat format = CacheFormat::E4m3;
  Tensor write, read;

  bool is_dynamic() const { return !write; }
};

constexpr int64_t kNvfp4Block = 16;

constexpr float largest_of(CacheFormat format) {
  switch (format) {
    case CacheFormat::E4m3:
      return 448.0f;
    case CacheFormat::E4m3Fnuz:
      return 240.0f;
    case CacheFormat::E5m2:
      return 57344.0f;
    case CacheFormat::Int8:
      return 127.0f;
    case CacheFormat::Nvfp4:
      return 6.0f;
  }
  return 0;
}

}  // namespace kvcal
