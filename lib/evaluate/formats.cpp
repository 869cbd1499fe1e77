#include "evaluate/formats.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "deployment/cache_choices.h"

namespace kvcal {
namespace {

StoredFormat alike(std::string name, CacheFormat format, ScalesPer per, Moved moved = Moved::No) {
  const StoredSite site{format, per, moved};
  return {std::move(name), site, site};
}

std::span<const StoredFormat> formats() {
  using enum ScalesPer;
  static const StoredFormat kFormats[] = {
      alike("fp8_e4m3", CacheFormat::E4m3, Tensor),
      alike("fp8_e4m3_per_head", CacheFormat::E4m3, Head),
      alike("fp8_e4m3fnuz", CacheFormat::E4m3Fnuz, Tensor),
      alike("fp8_e5m2", CacheFormat::E5m2, Tensor),
      alike("int8", CacheFormat::Int8, Tensor),
      alike("int8_per_head", CacheFormat::Int8, Head),
      alike("int8_per_channel", CacheFormat::Int8, Channel),
      alike("nvfp4", CacheFormat::Nvfp4, Tensor),
      alike("fp8_e4m3_affine", CacheFormat::E4m3, Tensor, Moved::ByMeans),
      alike("nvfp4_affine", CacheFormat::Nvfp4, Tensor, Moved::ByMeans),
      alike("nvfp4_rotated", CacheFormat::Nvfp4, Tensor, Moved::Turned),
      alike("fp8_per_token_head", CacheFormat::E4m3, TokenHead),
      alike("int8_per_token_head", CacheFormat::Int8, TokenHead),
      alike("int4_per_token_head", CacheFormat::RotatedInt4, TokenHead),
      {"turboquant_k8v4", StoredSite{CacheFormat::E4m3, One}, StoredSite{CacheFormat::Uint4, TokenHead}, true},
  };
  return kFormats;
}

const StoredFormat& format_named(std::string_view name) {
  const auto found = std::ranges::find(formats(), name, &StoredFormat::name);
  // "fp8" is another name of what is modelled.
  if (found == formats().end() && name != "fp8" && is_quantized_choice(name))
    fail("servers have a cache of type " + quoted(name) +
         ", but how they round it is not modelled; --help has the formats that are");
  if (found == formats().end()) fail_unknown("cache format", name, stored_format_names());
  return *found;
}

/// Of keys or values alone.
std::optional<StoredSite> site_named(std::string_view name) {
  if (name == "bf16") return std::nullopt;
  const StoredFormat& format = format_named(name);
  if (format.is_mixed()) fail(quoted(std::string(name)) + " is of keys and values together");
  return format.key;
}

/// Of one row of one head, or of MLA.
int64_t row_bytes(int64_t width, const std::optional<StoredSite>& site) {
  if (!site) return 2 * width;
  if (site->format == CacheFormat::Nvfp4) return width / 2 + width / kNvfp4Block;
  const int64_t scale = site->scales_per == ScalesPer::TokenHead ? static_cast<int64_t>(sizeof(float)) : 0;
  return (in_four_bits(site->format) ? (width + 1) / 2 : width) + scale;
}

bool is_measured(const std::optional<StoredSite>& site) {
  return site && site->scales_per != ScalesPer::TokenHead && site->scales_per != ScalesPer::One;
}

}  // namespace

bool StoredFormat::has_measured_scales() const { return is_measured(key) || is_measured(value); }

bool StoredFormat::is_served() const {
  const auto is_moved = [](const std::optional<StoredSite>& site) { return site && site->moved != Moved::No; };
  return !is_moved(key) && !is_moved(value);
}

std::vector<std::string> stored_format_names() {
  std::vector<std::string> names;
  for (const StoredFormat& format : formats()) names.push_back(format.name);
  return names;
}

StoredFormat stored_format(std::string_view name) {
  const size_t colon = name.find(':');
  if (colon == std::string_view::npos) return format_named(name);
  const StoredFormat pair{std::string(name), site_named(name.substr(0, colon)), site_named(name.substr(colon + 1))};
  if (!pair.key && !pair.value) fail(quoted(pair.name) + " is the cache as it is");
  return pair;
}

bool is_spared(const ModelSpec& spec, const KvLayout& layout, const StoredFormat& format) {
  constexpr int kEnds = 2;
  const bool is_hybrid = std::ranges::any_of(spec.layers, [](const LayerSpec& layer) { return layer.state_bytes > 0; });
  if (!format.spares_ends || is_hybrid) return false;
  const int n_layers = static_cast<int>(spec.layers.size()), ends = std::min(kEnds, n_layers / 2);
  return layout.layer < ends || layout.layer >= n_layers - ends;
}

int64_t bytes_per_token(const KvLayout& layout, const StoredFormat& format) {
  if (layout.is_mla()) return row_bytes(layout.head_dim_k, format.key);
  return layout.n_kv_heads * (row_bytes(layout.head_dim_k, format.key) + row_bytes(layout.head_dim_v, format.value));
}

int64_t bf16_bytes_per_token(const KvLayout& layout) { return bytes_per_token(layout, {"bf16", {}, {}}); }

}  // namespace kvcal
