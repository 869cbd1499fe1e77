#include "solve/sampled_damage.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "solve/policies.h"

namespace kvcal {
namespace {

// What none of n rows shows may be in 3 of n (the rule of three).
constexpr double kUnseenRows = 3;

/// A format that was tried, and the rungs of all heads, or of each.
struct Trial {
  SampleFormat format;
  std::vector<int> rungs;

  std::optional<int> common() const {
    const bool alike = std::ranges::adjacent_find(rungs, std::not_equal_to()) == rungs.end();
    return alike ? std::optional(rungs[0]) : std::nullopt;
  }
};

std::optional<SampleFormat> tried_as(const NumberFormat& format) {
  if (format.name == number_format("int8").name) return SampleFormat::Int8;
  return format.mantissa_bits == number_format("fp8_e4m3").mantissa_bits ? std::optional(SampleFormat::E4m3)
                                                                         : std::nullopt;
}

/// log2 of the scale at which the format that was tried rounds like the given one: their ranges lie alike, so that a
/// power of two stays one.
double place_of(const NumberFormat& format, SampleFormat tried, float scale) {
  const NumberFormat& other = number_format(tried == SampleFormat::Int8 ? "int8" : "fp8_e4m3");
  return std::log2(static_cast<double>(scale) * format.smallest_subnormal / other.smallest_subnormal);
}

/// Over readers and heads.
struct Worst {
  double mean = 0;    // the largest
  uint64_t rows = 0;  // the fewest that one of them was tried on
};

/// What was tried of a site in a format.
class Samples {
 public:
  Samples(const SiteStatistics& site, SampleFormat format) : sums_(site.sampled), format_(format) {}

  /// None where it was not measured, or some head was tried at its rung for too few tokens. Every row is tried at 1.0.
  template <class RungOf>
  std::optional<Worst> worst(SampledFigure figure, RungOf rung_of) const {
    constexpr double kEnoughTokens = 0.9;
    std::optional<Worst> worst;
    for (const SampledSum& at_one : sums_) {
      if (at_one.figure != figure || at_one.format != format_ || at_one.rung != kRungOfOne) continue;
      const SampledSum* sum = at(at_one, rung_of(at_one.head));
      if (!sum || static_cast<double>(sum->tokens) < kEnoughTokens * static_cast<double>(at_one.tokens))
        return std::nullopt;
      if (!worst) worst = {0, sum->rows};
      worst = {std::max(worst->mean, mean_of(*sum)), std::min(worst->rows, sum->rows)};
    }
    return worst;
  }

  /// With all heads at one rung; none without.
  std::optional<double> mean(SampledFigure figure, std::optional<int> rung) const {
    const auto found = rung ? worst(figure, [&](int32_t) { return *rung; }) : std::nullopt;
    return found ? std::optional(found->mean) : std::nullopt;
  }

  /// Those at which some head was tried.
  std::set<int> rungs_of(SampledFigure figure) const {
    std::set<int> rungs;
    for (const SampledSum& sum : sums_)
      if (sum.figure == figure && sum.format == format_) rungs.insert(sum.rung);
    return rungs;
  }

 private:
  const SampledSum* at(SampledSum key, int rung) const {
    key.rung = rung;
    const auto found = std::ranges::lower_bound(sums_, key.key(), {}, &SampledSum::key);
    return found != sums_.end() && found->key() == key.key() ? &*found : nullptr;
  }

  std::span<const SampledSum> sums_;
  SampleFormat format_;
};

/// What keys and values of a site add to it.
std::optional<double> stream_change(const Samples& samples, std::optional<int> rung) {
  const auto keys = samples.mean(SampledFigure::KeyStreamChange, rung);
  const auto values = samples.mean(SampledFigure::ValueStreamChange, rung);
  return keys || values ? std::optional(keys.value_or(0) + values.value_or(0)) : std::nullopt;
}

/// Squared change of the layer's output for each nat of KL. Logits that move a little move the output as far whether
/// keys or queries were rounded: so it is that of keys, at the rung that moves them least.
double change_by_kl(const Samples& keys) {
  double least = 0, ratio = 0;
  for (const int rung : keys.rungs_of(SampledFigure::KeyLayerChange)) {
    const double kl = keys.mean(SampledFigure::KeyDivergence, rung).value_or(0);
    if (kl == 0 || (least > 0 && kl >= least)) continue;
    least = kl;
    ratio = keys.mean(SampledFigure::KeyLayerChange, rung).value_or(0) / kl;
  }
  return ratio;
}

/// What moves little weight may move much of the output, as where a learned sink has nearly all of the weight. In
/// diffuse attention noise of n nats is a KL of n²/2 and changes the output by n: so half of the squared change is the
/// KL that would be as bad. Of keys, or of queries whose KL is given. 0 where it was not measured; where the output is
/// normed, only the change of its direction would count.
double kl_of_change(const CacheStatistics& cache, CacheSite site, const Trial& trial, double kl) {
  if (cache.layout.normed_output) return 0;
  const Samples keys(cache.at(cache.layout.is_mla() ? CacheSite::Latent : CacheSite::Key), trial.format);
  if (site == CacheSite::Query) return kl * change_by_kl(keys) / 2;
  if (site != CacheSite::Key) return 0;
  return keys.mean(SampledFigure::KeyLayerChange, trial.common()).value_or(0) / 2;
}

/// None where one of the site's figures was not measured there.
std::optional<SampledDamage> damage_of(const CacheStatistics& cache, CacheSite site, const Trial& trial,
                                       const PredictedDamage& predicted) {
  const Samples samples(cache.at(site), trial.format);
  SampledDamage damage;
  if (site != CacheSite::Value) {
    const bool query = site == CacheSite::Query;
    const int64_t group = query ? 1 : cache.layout.n_heads / cache.layout.n_kv_heads;
    const auto rung_of = [&](int32_t head) {
      return trial.rungs[trial.rungs.size() == 1 ? 0 : static_cast<size_t>(head / group)];
    };
    const auto worst = samples.worst(query ? SampledFigure::QueryDivergence : SampledFigure::KeyDivergence, rung_of);
    if (!worst) return std::nullopt;
    // A query whose logits move by nats may lose the key that it looked at: it then costs as many nats. Each query is
    // rounded on its own, few of them say little.
    if (query) damage.kl_unseen = kUnseenRows * predicted.typical_noise / static_cast<double>(worst->rows);
    damage.kl = std::max(worst->mean, kl_of_change(cache, site, trial, worst->mean));
  }
  damage.on_stream = stream_change(samples, trial.common());
  if (site == CacheSite::Value || site == CacheSite::Latent) {
    const std::optional<double> change = samples.mean(SampledFigure::LayerChange, trial.common());
    if (!change) return std::nullopt;
    // Of the output as it is. Where offsets that tokens share are most of it, the change of what varies counts, which
    // attention averages as it averages what varies.
    damage.rel = std::max(std::sqrt(*change), predicted.rel_varying);
  }
  return damage;
}

/// None of it clips for scales that do not, and none that does not for scales that do.
std::vector<int> rungs_of(const NumberFormat& format, SampleFormat tried, std::span<const float> scales, bool clips) {
  std::vector<int> rungs;
  for (const float scale : scales) {
    const double place = place_of(format, tried, scale);
    rungs.push_back(static_cast<int>(clips ? std::floor(place) : std::ceil(place)));
  }
  return rungs;
}

}  // namespace

SampleOptions sample_options(const SolveOptions& options) {
  const NumberFormat& format = number_format(options.format);
  constexpr int kBelow = 8;  // a scale that clips by a factor of 256
  const bool clips = !policy_of(options).uses_headroom;
  // At 1.0 a format of another bias clips what E4M3 does not: it is at a power of two below those that clip nothing.
  const int below = clips ? kBelow : format.name == "fp8_e4m3fnuz" ? 1 : 0;
  return {tried_as(format).value_or(SampleFormat::E4m3), below};
}

std::optional<SampledDamage> sampled_damage(const CacheStatistics& cache, CacheSite site, const NumberFormat& format,
                                            std::span<const float> scales, const PredictedDamage& predicted) {
  const SiteStatistics& s = cache.at(site);
  const std::optional<SampleFormat> tried = tried_as(format);
  const bool by_channel = scales.size() > s.heads.size();  // no rung has scales of channels
  if (s.sampled.empty() || !tried || by_channel) return std::nullopt;
  return damage_of(cache, site, {*tried, rungs_of(format, *tried, scales, predicted.clips)}, predicted);
}

}  // namespace kvcal
