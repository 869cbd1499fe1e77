// Formats of a KV cache by the names that a command line has for them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "model/model_spec.h"
#include "ops/cache_rounding.h"

namespace kvcal {

/// What has a scale of its own. TokenHead: each row of a head, when it is written; the others are fixed beforehand.
enum class ScalesPer : uint8_t { Tensor, Head, Channel, TokenHead };

struct StoredFormat {
  std::string_view name;
  CacheFormat format;
  ScalesPer scales_per;
};

/// "fp8_e4m3", "int8_per_channel", "fp8_per_token_head", ...
std::span<const StoredFormat> stored_formats();

/// Throws Error for an unknown name.
const StoredFormat& stored_format(std::string_view name);

/// What a cache takes for a token, with block scales and scales of rows (F32), without padding.
int64_t bytes_per_token(const KvLayout& layout, const StoredFormat& format);
int64_t bf16_bytes_per_token(const KvLayout& layout);

}  // namespace kvcal
