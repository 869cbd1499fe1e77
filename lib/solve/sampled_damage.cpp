#include "solve/sampled_damage.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "solve/policies.h"

namespace kvcal {
namespace {

constexpr double kEnoughTokens = 0.9;

/// What a format was tried as.
struct Stand {
  SampleFormat sampled;
  const NumberFormat& format;
};

std::optional<Stand> stand_in(const NumberFormat& format) {
  static const NumberFormat &e4m3 = number_format("fp8_e4m3"), &int8 = number_format("int8");
  if (format.name == int8.name) return Stand{SampleFormat::Int8, int8};
  if (format.mantissa_bits == e4m3.mantissa_bits) return Stand{SampleFormat::E4m3, e4m3};
  return std::nullopt;
}

/// log2 of the scale at which the format that was tried rounds like the given one: their ranges lie alike, so that a
/// power of two stays one.
double place_of(const NumberFormat& format, const Stand& stand, float scale) {
  return std::log2(static_cast<double>(scale) * format.smallest_subnormal / stand.format.smallest_subnormal);
}

/// Of a figure over readers and heads.
struct Worst {
  double mean = 0;    // the largest
  uint64_t rows = 0;  // the fewest that one of them was tried on
};

/// What was tried of a site in a format.
class Samples {
 public:
  Samples(const SiteStatistics& site, SampleFormat format) : site_(site), format_(format) {}

  /// Each head at the rung that rung_of(head) names; none where one of them was not tried there.
  template <class RungOf>
  std::optional<Worst> worst(SampledFigure figure, RungOf rung_of) const {
    std::optional<Worst> worst;
    const auto& all = site_.sampled;
    for (auto first = all.begin(); first != all.end();) {
      const auto last = std::find_if(first, all.end(), [&](const SampledSum& s) {
        return s.figure != first->figure || s.format != first->format || s.reader != first->reader ||
               s.head != first->head;
      });
      if (first->figure == figure && first->format == format_) {
        const SampledSum* sum = at(rung_of(first->head), {first, last});
        if (!sum) return std::nullopt;
        const Worst before = worst.value_or(Worst{0, sum->rows});
        worst = {std::max(before.mean, mean_of(*sum)), std::min(before.rows, sum->rows)};
      }
      first = last;
    }
    return worst;
  }

  /// Its mean with all heads at a rung; none where it was not tried there.
  std::optional<double> mean(SampledFigure figure, int rung) const {
    const std::optional<Worst> found = worst(figure, [&](int32_t) { return rung; });
    return found ? std::optional(found->mean) : std::nullopt;
  }

  /// Calls f(sum) for each of a figure.
  template <class F>
  void each(SampledFigure figure, F f) const {
    for (const SampledSum& sum : site_.sampled)
      if (sum.figure == figure && sum.format == format_) f(sum);
  }

 private:
  /// Of one figure, reader and head the sum at the rung, where it was tried for enough tokens.
  static const SampledSum* at(int rung, std::span<const SampledSum> by_rung) {
    uint64_t all = 0;
    const SampledSum* found = nullptr;
    for (const SampledSum& sum : by_rung) {
      if (sum.rung == kRungOfOne) all = sum.tokens;  // every row was tried at 1.0
      if (sum.rung == rung) found = &sum;
    }
    return found && static_cast<double>(found->tokens) >= kEnoughTokens * static_cast<double>(all) ? found : nullptr;
  }

  const SiteStatistics& site_;
  SampleFormat format_;
};

/// Scales that were tried: of each head, or one of all.
struct Trial {
  SampleFormat format;
  std::vector<int> rungs;
};

bool has_common_rung(const std::vector<int>& rungs) {
  return std::ranges::adjacent_find(rungs, std::not_equal_to{}) == rungs.end();
}

/// What keys and values of a site add to it; none where heads have no common rung.
std::optional<double> stream_change(const Samples& samples, const std::vector<int>& rungs) {
  if (!has_common_rung(rungs)) return std::nullopt;
  std::optional<double> sum;
  for (const SampledFigure figure : {SampledFigure::KeyStreamChange, SampledFigure::ValueStreamChange})
    if (const auto mean = samples.mean(figure, rungs[0])) sum = sum.value_or(0) + *mean;
  return sum;
}

/// Squared change of the layer's output for each nat of KL. Logits that move a little move the output as far whether
/// keys or queries were rounded: so it is that of keys, at the rung that moves them least.
double change_by_kl(const Samples& keys) {
  double least = 0, ratio = 0;
  keys.each(SampledFigure::KeyLayerChange, [&](const SampledSum& sum) {
    const double kl = keys.mean(SampledFigure::KeyDivergence, sum.rung).value_or(0);
    if (kl == 0 || (least > 0 && kl >= least)) return;
    least = kl;
    ratio = keys.mean(SampledFigure::KeyLayerChange, sum.rung).value_or(0) / kl;
  });
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
  if (site != CacheSite::Key || !has_common_rung(trial.rungs)) return 0;
  return keys.mean(SampledFigure::KeyLayerChange, trial.rungs[0]).value_or(0) / 2;
}

/// How much the lengths of heads vary beside each other, as a share of |y|²; of the reader where it is least. None
/// where it was not looked at.
std::optional<double> variation_of_shares(const Samples& samples) {
  std::map<int32_t, double> squares;  // of mean shares, by reader
  samples.each(SampledFigure::HeadShare,
               [&](const SampledSum& sum) { squares[sum.reader] += mean_of(sum) * mean_of(sum); });
  double most = 0;
  for (const auto& [reader, sum] : squares) most = std::max(most, sum);
  return squares.empty() ? std::nullopt : std::optional(std::max(0.0, 1 - most));
}

/// Relative change of what varies in an output that is normed, which is its direction. Heads' lengths beside each other
/// vary by `variation`, which the change as it was measured is a share of; what varies within heads changes by `within`
/// of itself. The change of both together is below either.
double change_of_direction(double measured, double variation, double within) {
  // A row's change counts by what varies in that row. Of rows near the mean that is little, so the root of the mean of
  // ratios is about twice the ratio of means.
  constexpr double kOfRows = 2;
  const double by_shares = kOfRows * measured / std::sqrt(variation);  // infinite of one head
  return measured > 0 && within > 0 ? 1 / std::sqrt(1 / (by_shares * by_shares) + 1 / (within * within)) : 0.0;
}

/// Relative change of the output of values, or of the latent part of rows.
std::optional<double> relative_change(const CacheStatistics& cache, const Samples& samples,
                                      const std::vector<int>& rungs, const PredictedDamage& predicted) {
  if (!has_common_rung(rungs)) return std::nullopt;  // no common rung
  const std::optional<double> change = samples.mean(SampledFigure::LayerChange, rungs[0]);
  if (!change) return std::nullopt;
  const double rel = std::sqrt(*change);
  // What was measured is of the output as it is. Where offsets that tokens share are most of it, the change of what
  // varies counts, which attention averages as it averages what varies.
  if (predicted.rel_varying <= 0) return rel;
  const std::optional<double> variation = variation_of_shares(samples);
  return std::max(rel, cache.layout.normed_output && variation
                           ? change_of_direction(rel, *variation, predicted.rel_varying)
                           : predicted.rel_varying);
}

/// None where one of the site's figures was not measured there.
std::optional<SampledDamage> damage_of(const CacheStatistics& cache, CacheSite site, const Trial& trial,
                                       const PredictedDamage& predicted) {
  const Samples samples(cache.at(site), trial.format);
  const std::vector<int>& rungs = trial.rungs;
  SampledDamage damage;
  if (site != CacheSite::Value) {
    const bool query = site == CacheSite::Query;
    const int64_t group = query ? 1 : cache.layout.n_heads / cache.layout.n_kv_heads;
    const std::optional<Worst> worst =
        samples.worst(query ? SampledFigure::QueryDivergence : SampledFigure::KeyDivergence,
                      [&](int32_t head) { return rungs[rungs.size() == 1 ? 0 : static_cast<size_t>(head / group)]; });
    if (!worst) return std::nullopt;
    // A query whose logits move by nats may lose the key that it looked at: it then costs as many nats. Each query is
    // rounded on its own, few of them say little.
    if (query) damage.kl_unseen = kUnseenRows * predicted.typical_noise / static_cast<double>(worst->rows);
    damage.kl = std::max(worst->mean, kl_of_change(cache, site, trial, worst->mean));
  }
  damage.on_stream = stream_change(samples, rungs);
  if (site == CacheSite::Value || site == CacheSite::Latent) {
    damage.rel = relative_change(cache, samples, rungs, predicted);
    if (!damage.rel) return std::nullopt;
  }
  return damage;
}

template <class Round>
std::vector<int> rungs_of(const std::vector<double>& places, Round round) {
  std::vector<int> rungs;
  for (const double place : places) rungs.push_back(static_cast<int>(round(place)));
  return rungs;
}

/// At scales that are no powers of two: at the nearest, of which none clips for a scale that does not.
std::optional<SampledDamage> damage_near(const CacheStatistics& cache, CacheSite site, const Stand& stand,
                                         const std::vector<double>& places, const PredictedDamage& predicted) {
  Trial trial{stand.sampled, rungs_of(places, [](double x) { return std::floor(x + 0.5); })};
  const auto predict_there = [&] {
    std::vector<float> scales;
    for (const int rung : trial.rungs) scales.push_back(scale_of_rung(rung));
    return predict_damage(cache, site, stand.format, scales);
  };
  PredictedDamage there = predict_there();
  if (there.clips && !predicted.clips) {
    trial.rungs = rungs_of(places, [](double x) { return std::ceil(x); });
    there = predict_there();
  }
  std::optional<SampledDamage> damage = damage_of(cache, site, trial, predicted);
  // Noise of n nats is a KL of n²/2 in diffuse attention. Where that is less at the scale, so is the KL, as far as
  // noise is less than at the rung. How much more of all values is clipped says little of the few that are looked at.
  const double at_scale = predicted.noise * predicted.noise, at_rung = there.noise * there.noise;
  if (damage && damage->kl && !predicted.clips && at_rung > 0)
    damage->kl = std::min(*damage->kl, std::max(*damage->kl * at_scale / at_rung, at_scale / 2));
  return damage;
}

}  // namespace

SampleOptions sample_options(const SolveOptions& options) {
  const std::optional<Stand> stand = stand_in(number_format(options.format));
  constexpr int kBelow = 8;  // a scale that clips by a factor of 256
  const bool clips = !policy_of(options).uses_headroom;
  // Without headroom the power of two nearest to a scale may be the one below. So is 1.0 where a format of another bias
  // clips there what E4M3 does not.
  const bool is_below = headroom_of(options) < 2 || (stand && stand->format.name != options.format);
  const int below = clips ? kBelow : is_below ? 1 : 0;
  return {stand ? stand->sampled : SampleFormat::E4m3, below};
}

bool is_tried(const NumberFormat& format, float scale) {
  int exponent = 0;
  return stand_in(format) && std::frexp(scale, &exponent) == 0.5F;
}

std::optional<SampledDamage> sampled_damage(const CacheStatistics& cache, CacheSite site, const NumberFormat& format,
                                            std::span<const float> scales, const PredictedDamage& predicted) {
  const SiteStatistics& s = cache.at(site);
  const std::optional<Stand> stand = stand_in(format);
  const bool by_channel = scales.size() > s.heads.size();  // no rung has scales of channels
  if (s.sampled.empty() || !stand || by_channel) return std::nullopt;
  std::vector<double> places;
  for (const float scale : scales) places.push_back(place_of(format, *stand, scale));
  if (!std::ranges::all_of(scales, [&](float scale) { return is_tried(format, scale); }))
    return damage_near(cache, site, *stand, places, predicted);
  return damage_of(cache, site, {stand->sampled, rungs_of(places, [](double x) { return std::round(x); })}, predicted);
}

}  // namespace kvcal
