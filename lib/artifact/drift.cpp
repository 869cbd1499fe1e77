#include "artifact/drift.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "solve/error_model.h"
#include "stats/queries.h"

namespace kvcal {
namespace {

/// The file holds its shares as float32.
constexpr double kDriftSlack = 1e-6;
/// Of what a calibration clipped or lost on purpose (percentile, mse, kl) traffic like its own has as much, give or
/// take.
constexpr double kOfOwn = 2;

[[noreturn]] void fail_other(const std::string& what, const std::string& actual, const std::string& expected) {
  fail("the statistics are from another model than the scale file: " + what + " is " + actual + ", expected " +
       expected);
}

void same(const std::string& what, const std::string& actual, const std::string& expected) {
  if (actual != expected) fail_other(what, quoted(actual), quoted(expected));
}

void same(const std::string& what, int64_t actual, int64_t expected) {
  if (actual != expected) fail_other(what, std::to_string(actual), std::to_string(expected));
}

void check_same_model(const ModelInfo& file, const std::optional<ModelInfo>& live) {
  if (!live) fail("the statistics do not say which model they are of");
  same("architecture", live->architecture, file.architecture);
  if (std::ranges::find(file.also_valid_for, live->weights_fingerprint) != file.also_valid_for.end()) return;
  same("config_sha256", live->config_sha256, file.config_sha256);
  same("weights_fingerprint", live->weights_fingerprint, file.weights_fingerprint);
}

void check_shape(const ArtifactLayer& layer, const CacheStatistics& cache) {
  const KvLayout& layout = cache.layout;
  const std::string of = "layer " + std::to_string(layer.index) + ": ";
  same(of + "kind", layout.kind, layer.kind);
  same(of + "n_heads", layout.n_heads, layer.n_heads);
  same(of + "n_kv_heads", layout.n_kv_heads, layer.n_kv_heads);
  same(of + "head_dim_k", layout.head_dim_k, layer.head_dim_k);
  same(of + "head_dim_v", layout.head_dim_v, layer.head_dim_v);
  for (const NamedSite& named : sites_of(layer)) {
    const size_t n = named.site->scale_per_head.size();
    if (n > 0)
      same(of + "heads with a scale", named.name == std::string_view("query") ? layout.n_heads : layout.n_kv_heads,
           static_cast<int64_t>(n));
  }
  if (cache.at(layer.is_mla() ? CacheSite::Latent : CacheSite::Key).n_tokens == 0)
    fail("layer " + std::to_string(layer.index) + " has no tokens: nothing was recorded");
}

struct Matched {
  const ArtifactLayer& layer;
  const CacheStatistics& cache;
};

/// In the order of the file. An MTP layer is compared where both sides have it: not every server drafts.
std::vector<Matched> matched(const Artifact& artifact, const Statistics& statistics) {
  check_same_model(artifact.model, statistics.run.model);
  if (statistics.run.heads) fail("the statistics have the heads of one rank only; kvcal merge puts all ranks together");
  std::vector<Matched> pairs;
  for (const auto& [layer, path] : listed_layers(artifact)) {
    const auto cache = std::ranges::find(statistics.caches, layer.index, [](const auto& c) { return c.layout.layer; });
    if (cache == statistics.caches.end() && artifact.model.is_mtp(layer.index)) continue;
    if (cache == statistics.caches.end())
      fail("the statistics have no layer " + std::to_string(layer.index) + ", of which the scale file has scales");
    check_shape(layer, *cache);
    pairs.push_back({layer, *cache});
  }
  for (const CacheStatistics& cache : statistics.caches)
    if (!statistics.run.model->is_mtp(cache.layout.layer) &&
        std::ranges::find(artifact.layers, cache.layout.layer, &ArtifactLayer::index) == artifact.layers.end())
      fail("the scale file has no layer " + std::to_string(cache.layout.layer) + ", of which there are statistics");
  return pairs;
}

struct Bounds {
  uint64_t least = 0, most = 0;
};

/// Tokens with a value beyond `range`. A token has at most `width` of them; those of the octave in which the range ends
/// may or may not be other tokens than the ones above it.
Bounds tokens_beyond(const HeadStatistics& head, double range, int64_t width) {
  const auto beyond = [&](int code) { return double{magnitude_of(static_cast<uint16_t>(code))} > range; };
  const auto whole = [&](int octave) { return beyond(octave << 7); };
  uint64_t tokens_above = 0, tokens_split = 0, values = 0, values_split = head.histogram.over;
  for (const auto& [octave, count] : head.token_octaves)
    if (beyond((octave << 7) | 0x7F)) (whole(octave) ? tokens_above : tokens_split) += count;
  for (const auto& [code, count] : head.histogram.counts) {
    if (!beyond(code)) continue;
    values += count;
    if (!whole(code >> 7)) values_split += count;
  }
  const auto n = static_cast<uint64_t>(width);
  return {std::max(tokens_above, (values + n - 1) / n), tokens_above + std::min(tokens_split, values_split)};
}

/// One site in the file and in one of the statistics.
struct Pair {
  const NumberFormat& format;
  const ArtifactSite& site;
  const CacheStatistics& cache;
  CacheSite kind;
  SiteStatistics live;  // latent: the whole row, whose heads are its parts

  double range(size_t head) const {
    const std::vector<float> scales = site.scales();
    return format.max * double{scales[scales.size() == 1 ? 0 : head]};
  }
  int64_t width(size_t head) const {
    if (kind != CacheSite::Latent) return width_of(cache.layout, kind);
    return width_of(cache.layout, head == 0 ? CacheSite::Latent : CacheSite::Rope);
  }
};

SiteDrift figures(const Pair& pair) {
  SiteDrift d;
  d.n_tokens = pair.live.n_tokens;
  d.absmax = absmax_of(pair.live);
  d.headroom = std::numeric_limits<double>::infinity();
  if (d.absmax > 0) d.growth = double{d.absmax} / double{pair.site.absmax} - 1;
  for (const HeadError& error : errors_of(pair.cache, pair.kind, pair.format, pair.site.scales())) {
    d.clipped = std::max(d.clipped, error.clipped);
    d.lost = std::max(d.lost, error.lost);
  }
  const auto n_tokens = static_cast<double>(d.n_tokens);
  for (size_t h = 0; h < pair.live.heads.size(); ++h) {
    const HeadStatistics& head = pair.live.heads[h];
    const double range = pair.range(h);
    const Bounds tokens = tokens_beyond(head, range, pair.width(h));
    d.clipped_tokens = std::max(d.clipped_tokens, static_cast<double>(tokens.least) / n_tokens);
    d.clipped_tokens_most = std::max(d.clipped_tokens_most, static_cast<double>(tokens.most) / n_tokens);
    d.n_not_finite += head.histogram.infinities + head.histogram.nans;
    if (head.absmax > 0) d.headroom = std::min(d.headroom, range / double{magnitude_of(head.absmax)});
  }
  return d;
}

std::vector<DriftLimit> broken(const SiteDrift& d, const ArtifactError& own, const DriftLimits& limits) {
  const auto above = [](double figure, double limit) { return figure > limit * (1 + kDriftSlack); };
  std::vector<DriftLimit> found;
  if (d.n_not_finite > 0) found.push_back(DriftLimit::NotFinite);
  if (above(d.clipped, std::max(limits.clipped, kOfOwn * own.clipped_at_scale))) found.push_back(DriftLimit::Clipped);
  if (above(d.lost, std::max(limits.lost, kOfOwn * own.lost_at_scale))) found.push_back(DriftLimit::Lost);
  if (limits.growth && above(d.growth, *limits.growth)) found.push_back(DriftLimit::Growth);
  return found;
}

/// The first prompt whose largest magnitude breaks the first of the limits. Maxima of prompts are over all heads: with
/// scales per head they do not tell which are clipped.
std::string first_prompt(const Pair& pair, DriftLimit limit, const DriftLimits& limits, const RunRecord& run) {
  double most = 0;
  if (limit == DriftLimit::Clipped && pair.site.scales().size() == 1)
    most = pair.range(0);
  else if (limit == DriftLimit::Growth)
    most = double{pair.site.absmax} * (1 + *limits.growth);
  else
    return "";
  const std::vector<float> maxima = prompt_maxima(pair.live, run.n_passes);
  const auto first = std::ranges::find_if(maxima, [&](float x) { return double{x} > most; });
  return first == maxima.end() ? "" : run.prompt_ids[static_cast<size_t>(first - maxima.begin())];
}

/// Puts what further statistics show to what those before did.
void unite(const SiteDrift& more, SiteDrift& d) {
  d.n_tokens += more.n_tokens;
  d.n_not_finite += more.n_not_finite;
  d.absmax = std::max(d.absmax, more.absmax);
  d.growth = std::max(d.growth, more.growth);
  d.headroom = std::min(d.headroom, more.headroom);
  d.clipped = std::max(d.clipped, more.clipped);
  d.clipped_tokens = std::max(d.clipped_tokens, more.clipped_tokens);
  d.clipped_tokens_most = std::max(d.clipped_tokens_most, more.clipped_tokens_most);
  d.lost = std::max(d.lost, more.lost);
  for (const DriftLimit limit : more.broken)
    if (std::ranges::find(d.broken, limit) == d.broken.end()) d.broken.push_back(limit);
  std::ranges::sort(d.broken);
  if (!d.since) d.since = more.since;
}

CacheSite kind_of(std::string_view site) {
  for (const CacheSite kind : {CacheSite::Key, CacheSite::Value, CacheSite::Latent})
    if (name_of(kind) == site) return kind;
  return CacheSite::Query;
}

std::vector<SiteDrift> drift_in(const Artifact& artifact, const Statistics& statistics, const std::string& name,
                                const DriftLimits& limits) {
  std::vector<SiteDrift> all;
  const NumberFormat& format = number_format(artifact.quantization.dtype);
  for (const auto& [layer, cache] : matched(artifact, statistics))
    for (const NamedSite& named : sites_of(layer)) {
      const CacheSite kind = kind_of(named.name);
      const Pair pair = {format, *named.site, cache, kind,
                         kind == CacheSite::Latent ? latent_row(cache) : cache.at(kind)};
      SiteDrift d = figures(pair);
      d.layer = layer.index;
      d.is_mtp = artifact.model.is_mtp(layer.index);
      d.site = named.name;
      d.broken = broken(d, named.site->error, limits);
      if (!d.broken.empty()) d.since = DriftSince{name, first_prompt(pair, d.broken.front(), limits, statistics.run)};
      all.push_back(std::move(d));
    }
  return all;
}

}  // namespace

std::string_view name_of(DriftLimit limit) {
  constexpr std::array<std::string_view, 4> kNames = {"not_finite", "clipped", "lost", "growth"};
  return kNames[static_cast<size_t>(limit)];
}

Drift::Drift(const Artifact& artifact, DriftLimits limits) : artifact_(artifact), limits_(limits) {
  if (artifact.quantization.granularity == Granularity::Channel)
    fail("the scale file has a scale for each channel, expected one for a tensor or for each head");
}

void Drift::add(const std::string& name, const Statistics& statistics) {
  std::vector<SiteDrift> found =
      while_doing(quoted(name), [&] { return drift_in(artifact_, statistics, name, limits_); });
  const bool in_file = !artifact_.mtp_layers.empty(), in_statistics = statistics.run.model->n_mtp_layers > 0;
  if (in_file != in_statistics)
    notes_.push_back(quoted(name) + ": the MTP layer is not compared, " +
                     (in_file ? "of which these statistics have nothing" : "of which the scale file has no scales"));
  for (SiteDrift& d : found) {  // the MTP layer is the last of all
    const auto same = [&](const SiteDrift& s) { return s.layer == d.layer && s.site == d.site; };
    if (const auto before = std::ranges::find_if(sites_, same); before != sites_.end())
      unite(d, *before);
    else
      sites_.push_back(std::move(d));
  }
}

bool Drift::within() const {
  return std::ranges::all_of(sites_, [](const SiteDrift& s) { return s.broken.empty(); });
}

}  // namespace kvcal
