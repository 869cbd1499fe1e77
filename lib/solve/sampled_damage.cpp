#include "solve/sampled_damage.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "solve/head_change.h"
#include "solve/policies.h"

namespace kvcal {
namespace {

// What none of n rows shows may be in 3 of n (the rule of three).
constexpr double kUnseenRows = 3;

// How many octaves below a scale the rung may be that stands for it.
constexpr int kFurthest = 8;

// Up to a nat the KL of weights goes with the square of the noise. Beyond, the logits with most noise do not decide.
constexpr double kSaturated = 1;

/// What was tried in place of the scales of all heads, or of each. Between two rungs figures lie between theirs.
struct Trial {
  SampleFormat format;
  std::vector<double> rungs;
  bool on_same_grid;  // as the scales: uniform ones, and E4M3's at powers of two

  std::optional<double> common() const {
    const bool alike = std::ranges::adjacent_find(rungs, std::not_equal_to()) == rungs.end();
    return alike ? std::optional(rungs[0]) : std::nullopt;
  }
};

/// What is judged.
struct ScalesIn {
  const NumberFormat& format;
  std::span<const float> scales;
};

double ratio_of(double x, double y) { return y > 0 ? x / y : 1; }

std::optional<SampleFormat> tried_as(const NumberFormat& format) {
  if (format.name == number_format("int8").name) return SampleFormat::Int8;
  return format.mantissa_bits == number_format("fp8_e4m3").mantissa_bits ? std::optional(SampleFormat::E4m3)
                                                                         : std::nullopt;
}

const NumberFormat& format_of(SampleFormat tried) {
  return number_format(tried == SampleFormat::Int8 ? "int8" : "fp8_e4m3");
}

/// The rung at which the format that was tried rounds like the given one at a scale: their ranges lie alike, so that a
/// power of two stays one. Other scales lie between two rungs as they lie between the two powers.
double place_of(const NumberFormat& format, SampleFormat tried, float scale) {
  int exponent = 0;
  const double ratio = format.smallest_subnormal / format_of(tried).smallest_subnormal;
  const double fraction = std::frexp(static_cast<double>(scale) * ratio, &exponent);
  return exponent - 1 + (2 * fraction - 1);
}

float scale_at(double rung) {
  const double below = std::floor(rung);
  return static_cast<float>(std::ldexp(1 + rung - below, static_cast<int>(below)));
}

/// Of two figures, which are squares of errors, what is that share of the way from the first error to the second.
double mean_between(double low, double high, double share) {
  const double error = std::sqrt(low) + share * (std::sqrt(high) - std::sqrt(low));
  return error * error;
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
  /// Each head's counts as often as `factor_of` says.
  template <class RungOf, class FactorOf>
  std::optional<Worst> worst(SampledFigure figure, const RungOf& rung_of, const FactorOf& factor_of) const {
    std::optional<Worst> worst;
    for (const SampledSum& at_one : sums_) {
      if (at_one.figure != figure || at_one.format != format_ || at_one.rung != kRungOfOne) continue;
      const double rung = rung_of(at_one.head), below = std::floor(rung);
      const SampledSum *low = at(at_one, below), *high = at(at_one, std::ceil(rung));
      if (!low || !high) return std::nullopt;
      if (!worst) worst = {0, low->rows};
      const double mean = low == high ? mean_of(*low) : mean_between(mean_of(*low), mean_of(*high), rung - below);
      worst = {std::max(worst->mean, factor_of(at_one.head) * mean), std::min({worst->rows, low->rows, high->rows})};
    }
    return worst;
  }

  template <class RungOf>
  std::optional<Worst> worst(SampledFigure figure, const RungOf& rung_of) const {
    return worst(figure, rung_of, [](int32_t) { return 1.0; });
  }

  /// With all heads at one rung; none without.
  std::optional<double> mean(SampledFigure figure, std::optional<double> rung) const {
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
  /// Null where it was not tried, or for too few tokens.
  const SampledSum* at(const SampledSum& at_one, double rung) const {
    constexpr double kEnoughTokens = 0.9;
    SampledSum key = at_one;
    key.rung = static_cast<int32_t>(rung);
    const auto found = std::ranges::lower_bound(sums_, key.key(), {}, &SampledSum::key);
    if (found == sums_.end() || found->key() != key.key()) return nullptr;
    return static_cast<double>(found->tokens) < kEnoughTokens * static_cast<double>(at_one.tokens) ? nullptr : &*found;
  }

  std::span<const SampledSum> sums_;
  SampleFormat format_;
};

/// What keys and values of a site add to it.
std::optional<double> stream_change(const Samples& samples, std::optional<double> rung) {
  const auto keys = samples.mean(SampledFigure::KeyStreamChange, rung);
  const auto values = samples.mean(SampledFigure::ValueStreamChange, rung);
  return keys || values ? std::optional(keys.value_or(0) + values.value_or(0)) : std::nullopt;
}

/// Squared change of the layer's output for each nat of KL. Logits that move a little move the output as far whether
/// keys or queries were rounded: so it is that of keys, at the rung that moves them least.
/// None where no rung moves any.
std::optional<double> change_by_kl(const Samples& keys) {
  double least = 0, ratio = 0;
  for (const int rung : keys.rungs_of(SampledFigure::KeyLayerChange)) {
    const double kl = keys.mean(SampledFigure::KeyDivergence, rung).value_or(0);
    if (kl == 0 || (least > 0 && kl >= least)) continue;
    least = kl;
    ratio = keys.mean(SampledFigure::KeyLayerChange, rung).value_or(0) / kl;
  }
  return least > 0 ? std::optional(ratio) : std::nullopt;
}

/// Squared change of the layer's output by weights that move: with keys rounded, or with queries whose KL is given.
/// None where it was not measured; where the output is normed, only the change of its direction would count.
std::optional<double> change_by_weights(const CacheStatistics& cache, CacheSite site, const Trial& trial, double kl) {
  if (cache.layout.normed_output) return std::nullopt;
  const Samples keys(cache.at(cache.layout.is_mla() ? CacheSite::Latent : CacheSite::Key), trial.format);
  if (site != CacheSite::Query) return keys.mean(SampledFigure::KeyLayerChange, trial.common());
  const std::optional<double> ratio = change_by_kl(keys);
  return ratio ? std::optional(kl * *ratio) : std::nullopt;
}

std::vector<float> scales_of(const Trial& trial) {
  std::vector<float> scales;
  for (const double rung : trial.rungs) scales.push_back(scale_at(rung));
  return scales;
}

PredictedDamage predict_at(const CacheStatistics& cache, CacheSite site, const Trial& trial) {
  return predict_damage(cache, site, format_of(trial.format), scales_of(trial));
}

/// How many times as large an error of the logits is at the scales as where it was measured.
double noise_factor(const PredictedDamage& at_scales, const PredictedDamage& at_rungs, bool on_same_grid) {
  if (at_scales.clips) return 1;  // what is clipped may be what queries look at: no square of an error tells
  if (on_same_grid) return ratio_of(at_scales.noise, at_rungs.noise);
  return ratio_of(std::min(at_scales.noise, kSaturated), std::min(at_rungs.noise, kSaturated));
}

/// Change of the output of the worst KV head that counts, each at its scale.
std::optional<double> change_of_heads(const CacheStatistics& cache, const Trial& trial, const ScalesIn& at) {
  const std::vector<HeadChange> at_scales = predict_head_changes(cache, at.format, at.scales),
                                at_rungs = predict_head_changes(cache, format_of(trial.format), scales_of(trial));
  const int64_t group = cache.layout.n_heads / cache.layout.n_kv_heads;
  const auto head_of = [&](int32_t query_head) { return static_cast<size_t>(query_head / group); };
  const auto rung_of = [&](int32_t query_head) { return trial.rungs[head_of(query_head)]; };
  const auto factor_of = [&](int32_t query_head) {
    const HeadChange &at_scale = at_scales[head_of(query_head)], &at_rung = at_rungs[head_of(query_head)];
    const double ratio = ratio_of(at_scale.rel, at_rung.rel);
    return at_scale.counts ? ratio * ratio : 0;
  };
  const auto worst =
      Samples(cache.at(CacheSite::Value), trial.format).worst(SampledFigure::ValueChange, rung_of, factor_of);
  return worst ? std::optional(std::sqrt(worst->mean)) : std::nullopt;
}

/// Change of the output by values where all heads share a rung: of all of them together.
std::optional<double> change_of_layer(const Samples& samples, const Trial& trial, const PredictedDamage& predicted,
                                      const PredictedDamage& at_rungs) {
  const std::optional<double> change = samples.mean(SampledFigure::LayerChange, trial.common());
  const double ratio = ratio_of(predicted.rel_raw, at_rungs.rel_raw);
  return change ? std::optional(std::sqrt(*change) * ratio) : std::nullopt;
}

/// None where one of the site's figures was not measured there, or where other values are clipped there.
std::optional<SampledDamage> damage_of(const CacheStatistics& cache, CacheSite site, const Trial& trial,
                                       const ScalesIn& at, const PredictedDamage& predicted) {
  const Samples samples(cache.at(site), trial.format);
  const bool is_query = site == CacheSite::Query;
  const bool meets_logits = site != CacheSite::Value, is_output = site == CacheSite::Value || site == CacheSite::Latent;
  const int64_t group = is_query ? 1 : cache.layout.n_heads / cache.layout.n_kv_heads;
  const auto rung_of = [&](int32_t head) {
    return trial.rungs[trial.rungs.size() == 1 ? 0 : static_cast<size_t>(head / group)];
  };
  const auto worst = samples.worst(is_query ? SampledFigure::QueryDivergence : SampledFigure::KeyDivergence, rung_of);
  const PredictedDamage at_rungs = predict_at(cache, site, trial);
  std::optional<double> of_values;
  if (is_output)
    of_values =
        trial.common() ? change_of_layer(samples, trial, predicted, at_rungs) : change_of_heads(cache, trial, at);
  if ((meets_logits && !worst) || (is_output && !of_values)) return std::nullopt;

  SampledDamage damage;
  damage.on_stream = stream_change(samples, trial.common());
  // Of values the ratio has what clips.
  if (at_rungs.clips != predicted.clips && (at_rungs.clips || meets_logits)) return std::nullopt;
  if (meets_logits) {
    // A query whose logits move by nats may lose the key that it looked at: it then costs as many nats. Each query is
    // rounded on its own, few of them say little.
    if (is_query) damage.kl_unseen = kUnseenRows * predicted.typical_noise / static_cast<double>(worst->rows);
    const double factor = noise_factor(predicted, at_rungs, trial.on_same_grid);
    damage.kl = worst->mean * factor * factor;
    if (const auto moved = change_by_weights(cache, site, trial, worst->mean)) damage.rel = std::sqrt(*moved) * factor;
  }
  if (of_values) {
    // Of the output as it is. Where offsets that tokens share are most of it, the change of what varies counts, which
    // attention averages as it averages what varies.
    const double of_weights = damage.rel.value_or(0);
    damage.rel = std::max(std::sqrt(*of_values * *of_values + of_weights * of_weights), predicted.rel_varying);
  }
  return damage;
}

bool is_power_of_two(float scale) {
  int exponent = 0;
  return std::frexp(scale, &exponent) == 0.5f;
}

/// The next powers of two; scales that clip what meets logits lie between two.
Trial trial_for(const NumberFormat& format, SampleFormat tried, std::span<const float> scales, bool between) {
  Trial trial{tried, {}, tried == SampleFormat::Int8 || std::ranges::all_of(scales, is_power_of_two)};
  for (const float scale : scales) {
    const double place = place_of(format, tried, scale);
    trial.rungs.push_back(between ? place : std::ceil(place));
  }
  return trial;
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
  Trial trial = trial_for(format, *tried, scales, predicted.clips && site != CacheSite::Value);
  for (int below = 0; below <= kFurthest; ++below) {
    if (auto damage = damage_of(cache, site, trial, {format, scales}, predicted)) {
      if (below > 0) damage->on_stream.reset();  // would be of that rung
      return damage;
    }
    for (double& rung : trial.rungs) --rung;
  }
  return std::nullopt;
}

}  // namespace kvcal
