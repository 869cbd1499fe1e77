#include "evaluate/formats.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"

namespace kvcal {

std::span<const StoredFormat> stored_formats() {
  using enum ScalesPer;
  static constexpr StoredFormat kFormats[] = {
      {"fp8_e4m3", CacheFormat::E4m3, Tensor},
      {"fp8_e4m3_per_head", CacheFormat::E4m3, Head},
      {"fp8_e4m3fnuz", CacheFormat::E4m3Fnuz, Tensor},
      {"fp8_e5m2", CacheFormat::E5m2, Tensor},
      {"int8", CacheFormat::Int8, Tensor},
      {"int8_per_head", CacheFormat::Int8, Head},
      {"int8_per_channel", CacheFormat::Int8, Channel},
      {"nvfp4", CacheFormat::Nvfp4, Tensor},
      {"fp8_per_token_head", CacheFormat::E4m3, TokenHead},
      {"int8_per_token_head", CacheFormat::Int8, TokenHead},
  };
  return kFormats;
}

const StoredFormat& stored_format(std::string_view name) {
  const auto formats = stored_formats();
  const auto found = std::ranges::find(formats, name, &StoredFormat::name);
  if (found != formats.end()) return *found;
  std::vector<std::string> known;
  for (const StoredFormat& f : formats) known.emplace_back(f.name);
  fail_unknown("cache format", name, known);
}

namespace {

int64_t elements_of(const KvLayout& layout) {
  return layout.is_mla() ? layout.head_dim_k : layout.n_kv_heads * (layout.head_dim_k + layout.head_dim_v);
}

int64_t rows_of(const KvLayout& layout) { return layout.is_mla() ? 1 : 2 * layout.n_kv_heads; }

}  // namespace

int64_t bytes_per_token(const KvLayout& layout, const StoredFormat& format) {
  const int64_t n = elements_of(layout);
  if (format.format == CacheFormat::Nvfp4) return n / 2 + n / kNvfp4Block;
  const int64_t scales = format.scales_per == ScalesPer::TokenHead ? rows_of(layout) : 0;
  return n + scales * static_cast<int64_t>(sizeof(float));
}

int64_t bf16_bytes_per_token(const KvLayout& layout) { return 2 * elements_of(layout); }

}  // namespace kvcal
