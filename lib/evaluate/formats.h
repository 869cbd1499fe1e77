// Formats of a KV cache by the names that a command line has for them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evaluate/variant.h"
#include "model/model_spec.h"

namespace kvcal {

/// What has a scale of its own. TokenHead: each row of a head, when it is written; the others are fixed beforehand.
/// One: all are stored at 1.0.
enum class ScalesPer : uint8_t { One, Tensor, Head, Channel, TokenHead };

struct StoredSite {
  CacheFormat format;
  ScalesPer scales_per;
  Moved moved = Moved::No;

  /// Whether it needs to know what was measured of single heads or channels, which a scale file does not say.
  bool needs_statistics() const {
    return scales_per == ScalesPer::Head || scales_per == ScalesPer::Channel || moved != Moved::No;
  }
  bool operator==(const StoredSite&) const = default;
};

/// Keys and values; none: as they are, in 16 bits. MLA has one row, stored as `key`.
struct StoredFormat {
  std::string name;
  std::optional<StoredSite> key, value;
  // The first two and the last two layers stay in 16 bits, but for models with recurrent state: so vLLM serves it.
  bool spares_ends = false;

  bool is_mixed() const { return key != value; }

  /// Whether it needs to know what was measured, and whether statistics alone say it.
  bool has_measured_scales() const;
  bool needs_statistics() const { return (key && key->needs_statistics()) || (value && value->needs_statistics()); }

  /// Whether a released server reads such a cache.
  bool is_served() const;
};

/// "fp8_e4m3", "int8_per_channel", "nvfp4_affine", "fp8_per_token_head", "turboquant_k8v4", ...
std::vector<std::string> stored_format_names();

/// One of these, or one for keys and one for values, "fp8_e4m3:nvfp4"; "bf16" there keeps them. Throws Error for an
/// unknown name.
StoredFormat stored_format(std::string_view name);

/// Whether the layer of this cache stays as it is, though the format is another.
bool is_spared(const ModelSpec& spec, const KvLayout& layout, const StoredFormat& format);

/// What a cache takes for a token, with block scales and scales of rows, without padding.
int64_t bytes_per_token(const KvLayout& layout, const StoredFormat& format);
int64_t bf16_bytes_per_token(const KvLayout& layout);

}  // namespace kvcal
