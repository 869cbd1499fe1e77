#include "evaluate/make_variants.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "artifact/nvfp4_scale.h"
#include "base/error.h"
#include "evaluate/moved_rows.h"
#include "ops/rotation_signs.h"
#include "stats/queries.h"

namespace kvcal {
namespace {

SiteRounding rounding_at(CacheFormat format, std::vector<float> scales) { return {format, scales, scales}; }

/// A variant whose sites are what `site_of(layout, site)` makes of each.
template <class F>
Variant made(const ModelSpec& spec, std::string name, std::string_view format, const F& site_of) {
  Variant variant{std::move(name), std::string(format), {}};
  for (const KvLayout& layout : spec.caches) {
    CacheSites sites;
    sites.key = site_of(layout, layout.is_mla() ? CacheSite::Latent : CacheSite::Key);
    if (!layout.is_mla()) sites.value = site_of(layout, CacheSite::Value);
    variant.caches.push_back(std::move(sites));
  }
  return variant;
}

const ArtifactLayer& layer_of(const Artifact& artifact, const KvLayout& layout) {
  const auto layer = std::ranges::find(artifact.layers, layout.layer, &ArtifactLayer::index);
  if (layer == artifact.layers.end()) fail("the scale file has no layer " + std::to_string(layout.layer));
  return *layer;
}

const ArtifactSite& site_of(const ArtifactLayer& layer, CacheSite site) {
  if (site == CacheSite::Latent) return layer.latent;
  return site == CacheSite::Key ? layer.key : layer.value;
}

/// Of the whole row, as it is stored.
SiteStatistics stored_site(const CacheStatistics& cache, CacheSite site) {
  return site == CacheSite::Latent ? latent_row(cache) : cache.at(site);
}

std::vector<float> ranges_per(ScalesPer per, const SiteStatistics& measured, CacheSite site) {
  if (per == ScalesPer::Tensor || (site == CacheSite::Latent && per == ScalesPer::Head)) return {absmax_of(measured)};
  std::vector<float> ranges;
  if (per == ScalesPer::Head)
    for (const HeadStatistics& head : measured.heads) ranges.push_back(magnitude_of(head.absmax));
  else
    for (const ChannelStatistics& channel : measured.channels) ranges.push_back(magnitude_of(channel.absmax));
  return ranges;
}

/// How far from the mean numbers of the channel may lie, as its octaves, their signs and its largest magnitude show.
double farthest_from(double mean, const ChannelStatistics& channel, uint64_t n_tokens) {
  double farthest = 0;
  uint64_t n = 0;
  for (const OctaveMoments& o : channel.octaves) {
    const double unit = octave_unit(o.octave), least = o.octave == 0 ? 0 : 128 * unit;
    const double most = std::min(255 * unit, double{magnitude_of(channel.absmax)});
    if (o.signed_sum_m > -o.sum_m) farthest = std::max({farthest, std::abs(least - mean), std::abs(most - mean)});
    if (o.signed_sum_m < o.sum_m) farthest = std::max({farthest, std::abs(least + mean), std::abs(most + mean)});
    n += static_cast<uint64_t>(o.count);
  }
  return n < n_tokens ? std::max(farthest, std::abs(mean)) : farthest;  // zeros are in no octave
}

SiteRange around_means(const SiteStatistics& measured) {
  SiteRange range{{0}, {}};
  for (const ChannelStatistics& channel : measured.channels) {
    const auto mean = static_cast<float>(moments_of(channel, measured.n_tokens).mean);
    range.means.push_back(mean);
    range.largest[0] = std::max(range.largest[0], static_cast<float>(farthest_from(mean, channel, measured.n_tokens)));
  }
  return range;
}

/// The longest that a part of a row can be whose channels are turned together: turned, it may be one number.
float largest_turned(const SiteStatistics& measured, int64_t width) {
  const auto together = static_cast<size_t>(rotated_together(width));
  double longest = 0;
  for (size_t c = 0; c < measured.channels.size(); c += together) {
    double square = 0;
    for (size_t i = c; i < c + together; ++i) square += std::pow(double{magnitude_of(measured.channels[i].absmax)}, 2);
    longest = std::max(longest, std::sqrt(square));
  }
  return static_cast<float>(longest * std::sqrt(static_cast<double>(together)) * turned_by(width));
}

/// The scale with which the format just holds this magnitude; of NVFP4 the one that is exported.
float scale_for(CacheFormat format, float absmax) {
  if (format == CacheFormat::Nvfp4) return nvfp4_global_scale(absmax);
  return absmax > 0 ? absmax / largest_of(format) : 1.0f;
}

}  // namespace

Variant at_one(const ModelSpec& spec, const StoredFormat& format) {
  return made(spec, "scale_1.0", format.name,
              [&](const KvLayout&, CacheSite) { return rounding_at(format.key->format, {1.0f}); });
}

Variant at_scales(const ModelSpec& spec, const Artifact& artifact, std::string name) {
  const StoredFormat format = stored_format(artifact.quantization.dtype);
  return made(spec, std::move(name), format.name, [&](const KvLayout& layout, CacheSite s) {
    return rounding_at(format.key->format, site_of(layer_of(artifact, layout), s).scales());
  });
}

RangesOf ranges_of(const Statistics& statistics) {
  return [&](const KvLayout& layout, CacheSite site, const StoredSite& stored) {
    const auto cache =
        std::ranges::find(statistics.caches, layout.layer, [](const CacheStatistics& c) { return c.layout.layer; });
    if (cache == statistics.caches.end()) fail("the statistics have no layer " + std::to_string(layout.layer));
    const SiteStatistics measured = stored_site(*cache, site);
    if (stored.moved == Moved::ByMeans) return around_means(measured);
    const int64_t width = site == CacheSite::Value ? layout.head_dim_v : layout.head_dim_k;
    if (stored.moved == Moved::Turned) return SiteRange{{largest_turned(measured, width)}, {}};
    return SiteRange{ranges_per(stored.scales_per, measured, site), {}};
  };
}

RangesOf ranges_of(const Artifact& artifact) {
  return [&](const KvLayout& layout, CacheSite site, const StoredSite& stored) {
    if (stored.needs_statistics())
      fail("a scale file does not say what heads and channels hold; give the statistics, --stats");
    return SiteRange{{site_of(layer_of(artifact, layout), site).absmax}, {}};
  };
}

Variant in_format(const ModelSpec& spec, const StoredFormat& format, const RangesOf& ranges) {
  using Rounding = std::optional<SiteRounding>;
  return made(spec, format.name, format.name, [&](const KvLayout& layout, CacheSite site) -> Rounding {
    if (site == CacheSite::Latent && format.is_mixed())
      fail("layer " + std::to_string(layout.layer) + " stores one latent row for keys and values: it has one format");
    const std::optional<StoredSite>& stored = site == CacheSite::Value ? format.value : format.key;
    if (!stored || is_spared(spec, layout, format)) return std::nullopt;
    if (stored->scales_per == ScalesPer::TokenHead) return SiteRounding{stored->format, {}, {}};
    if (stored->scales_per == ScalesPer::One) return rounding_at(stored->format, {1.0f});
    auto [scales, means] = ranges(layout, site, *stored);
    for (float& scale : scales) scale = scale_for(stored->format, scale);
    return SiteRounding{stored->format, scales, scales, stored->moved, std::move(means)};
  });
}

void check_rows(const Variant& variant, const ModelSpec& spec) {
  const auto check = [](const std::optional<SiteRounding>& site, int layer, int64_t width) {
    if (site && site->format == CacheFormat::Nvfp4 && width % kNvfp4Block != 0)
      fail("NVFP4 stores blocks of " + std::to_string(kNvfp4Block) + " channels, layer " + std::to_string(layer) +
           " has rows of " + std::to_string(width));
  };
  for (size_t c = 0; c < spec.caches.size(); ++c) {
    check(variant.caches[c].key, spec.caches[c].layer, spec.caches[c].head_dim_k);
    check(variant.caches[c].value, spec.caches[c].layer, spec.caches[c].head_dim_v);
  }
}

void take_scales(Variant& variant, const StoredFormat& format, const ModelSpec& spec, const Artifact& artifact) {
  const Variant file = at_scales(spec, artifact, "file");
  const std::optional<StoredSite> own = stored_format(artifact.quantization.dtype).key;
  for (size_t c = 0; c < variant.caches.size(); ++c) {
    if (format.key == own) variant.caches[c].key = file.caches[c].key;
    if (format.value == own) variant.caches[c].value = file.caches[c].value;
  }
}

Variant swapped(Variant variant) {
  variant.name = "swapped";
  for (CacheSites& sites : variant.caches)
    if (sites.key && sites.value) std::swap(sites.key, sites.value);
  return variant;
}

Variant undivided(Variant variant) {
  variant.name = "undivided";
  for (CacheSites& sites : variant.caches)
    for (std::optional<SiteRounding>* site : {&sites.key, &sites.value, &sites.query})
      if (*site) std::ranges::fill((*site)->write, 1.0f);
  return variant;
}

Variant one_cache(const Variant& variant, const KvLayout& layout) {
  Variant alone{"layer_" + std::to_string(layout.layer), variant.format, {}, layout.layer};
  alone.caches.resize(variant.caches.size());
  const auto cache = static_cast<size_t>(layout.cache);
  alone.caches[cache] = variant.caches[cache];
  return alone;
}

Variant stored_states(const ModelSpec& spec, std::string_view dtype, int64_t chunk) {
  Variant variant{"state_" + std::string(dtype), "none", {}};
  variant.state = state_format(dtype);
  variant.state.chunk = chunk;
  if (std::ranges::none_of(spec.layers, &LayerSpec::has_long_state)) fail("the model has no recurrent state");
  variant.caches.resize(spec.caches.size());
  return variant;
}

Variant floor_of(const ModelSpec& spec) {
  if (spec.caches.empty()) fail("the model has no KV cache, so no attention that could be computed in another order");
  Variant variant{kFloor, "none", {}};
  variant.caches.resize(spec.caches.size());
  return variant;
}

Variant stored_index_keys(const ModelSpec& spec) {
  if (!spec.index_keys_in_fp8) fail("the model has no indexer whose keys servers store in FP8");
  Variant variant{kIndexKeys, "fp8_e4m3", {}};
  variant.caches.resize(spec.caches.size());
  variant.index_keys = true;
  return variant;
}

void round_queries(Variant& variant, const ModelSpec& spec, const Artifact* artifact) {
  for (size_t c = 0; c < variant.caches.size(); ++c) {
    const SiteRounding& key = *variant.caches[c].key;
    const float scale = artifact ? layer_of(*artifact, spec.caches[c]).query.scale : 1.0f;
    variant.caches[c].query = key.write.empty() ? key : rounding_at(key.format, {scale});
  }
}

}  // namespace kvcal
