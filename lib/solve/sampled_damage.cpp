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

/// The rung nearest to such a scale.
int nearest_rung(double alike) {
  return std::clamp(static_cast<int>(std::floor(std::log2(alike) / 2 + 0.5)), -kMostRung, kMostRung);
}

/// The scale at which the format that was tried rounds like the given one: their ranges lie alike.
double alike(const NumberFormat& format, const Stand& stand, double scale) {
  return scale * format.smallest_subnormal / stand.format.smallest_subnormal;
}

/// The sums of one figure, reader and head, by rung.
class Rungs {
 public:
  explicit Rungs(std::span<const SampledSum> sums) : sums_(sums) {}

  /// The sum at the rung, where it was tried for enough tokens.
  const SampledSum* at(int rung) const {
    uint64_t all = 0;
    const SampledSum* found = nullptr;
    for (const SampledSum& sum : sums_) {
      if (sum.rung == kRungOfOne) all = sum.tokens;  // every row was tried at 1.0
      if (sum.rung == rung) found = &sum;
    }
    return found && static_cast<double>(found->tokens) >= kEnoughTokens * static_cast<double>(all) ? found : nullptr;
  }

 private:
  std::span<const SampledSum> sums_;
};

/// Of a figure over readers and heads.
struct Worst {
  double mean = 0;    // the largest
  uint64_t rows = 0;  // the fewest that one of them was tried on
};

/// Each head at the rung that rung_of(head) names; none where one of them was not tried there.
template <class RungOf>
std::optional<Worst> worst_of(const SiteStatistics& site, SampledFigure figure, SampleFormat format, RungOf rung_of) {
  std::optional<Worst> worst;
  const auto& all = site.sampled;
  for (auto first = all.begin(); first != all.end();) {
    const auto last = std::find_if(first, all.end(), [&](const SampledSum& s) {
      return s.figure != first->figure || s.format != first->format || s.reader != first->reader ||
             s.head != first->head;
    });
    if (first->figure == figure && first->format == format) {
      const SampledSum* sum = Rungs({first, last}).at(rung_of(first->head));
      if (!sum) return std::nullopt;
      const Worst before = worst.value_or(Worst{0, sum->rows});
      worst = {std::max(before.mean, mean_of(*sum)), std::min(before.rows, sum->rows)};
    }
    first = last;
  }
  return worst;
}

/// The largest mean of a figure over readers and heads at a rung; 0 where it was not tried there.
double mean_at(const SiteStatistics& site, SampledFigure figure, SampleFormat format, int rung) {
  const std::optional<Worst> worst = worst_of(site, figure, format, [&](int32_t) { return rung; });
  return worst ? worst->mean : 0.0;
}

/// How far a measured figure may be corrected.
struct CorrectionRange {
  double least, most;
  CorrectionRange squared() const { return {least * least, most * most}; }
};

/// A measured figure, corrected by how much the predicted one at the scale exceeds that at the rung: about 1, but for
/// data so concentrated that the place of the grid matters, and at the edges of the format.
double corrected(double measured, double at_scale, double at_rung, CorrectionRange range) {
  return at_rung > 0 ? measured * std::clamp(at_scale / at_rung, range.least, range.most) : measured;
}

/// A figure at a scale between two rungs that were tried, from both.
std::optional<double> between(const SiteStatistics& site, SampledFigure figure, const Stand& stand, double alike) {
  const double place = std::log2(alike) / 2, below = std::floor(place), share = place - below;
  const auto figure_at = [&](double rung) {
    return worst_of(site, figure, stand.sampled, [&](int32_t) { return static_cast<int>(rung); });
  };
  const std::optional<Worst> lower = figure_at(below), upper = figure_at(below + 1);
  if (!lower || !upper) return std::nullopt;
  return std::pow(lower->mean, 1 - share) * std::pow(upper->mean, share);
}

bool has_common_rung(const std::vector<int>& rungs) {
  return std::ranges::adjacent_find(rungs, std::not_equal_to{}) == rungs.end();
}

/// What keys and values of a site add to it; none where heads have no common rung.
std::optional<double> stream_change(const SiteStatistics& site, SampleFormat format, const std::vector<int>& rungs,
                                    const PredictedDamage& at_scale, const PredictedDamage& at_rung,
                                    CorrectionRange of_kl, CorrectionRange of_change) {
  if (!has_common_rung(rungs)) return std::nullopt;
  const auto mean = [&](SampledFigure figure) -> std::optional<double> {
    const auto worst = worst_of(site, figure, format, [&](int32_t) { return rungs[0]; });
    return worst ? std::optional(worst->mean) : std::nullopt;
  };
  const auto square = [](double x) { return x * x; };
  std::optional<double> sum;
  if (const auto by_key = mean(SampledFigure::KeyStreamChange))
    sum = corrected(*by_key, square(at_scale.noise), square(at_rung.noise), of_kl);
  if (const auto by_value = mean(SampledFigure::ValueStreamChange))
    sum =
        sum.value_or(0) + corrected(*by_value, square(at_scale.rel_raw), square(at_rung.rel_raw), of_change.squared());
  return sum;
}

/// Squared change of the layer's output for each nat of KL. Logits that move a little move the output as far whether
/// keys or queries were rounded: so it is that of keys, at the rung that moves them least.
double change_by_kl(const SiteStatistics& keys, SampleFormat format) {
  double least = 0, ratio = 0;
  for (const SampledSum& sum : keys.sampled) {
    if (sum.figure != SampledFigure::KeyLayerChange || sum.format != format) continue;
    const double kl = mean_at(keys, SampledFigure::KeyDivergence, format, sum.rung);
    if (kl == 0 || (least > 0 && kl >= least)) continue;
    least = kl;
    ratio = mean_at(keys, SampledFigure::KeyLayerChange, format, sum.rung) / kl;
  }
  return ratio;
}

/// What moves little weight may move much of the output, as where a learned sink has nearly all of the weight. In
/// diffuse attention noise of n nats is a KL of n²/2 and changes the output by n: so half of the squared change is the
/// KL that would be as bad. Of keys, or of queries whose KL is given. 0 where it was not measured; where the output is
/// normed, only the change of its direction would count.
double kl_of_change(const CacheStatistics& cache, CacheSite site, SampleFormat format, const std::vector<int>& rungs,
                    double kl) {
  if (cache.layout.normed_output) return 0;
  const SiteStatistics& keys = cache.at(cache.layout.is_mla() ? CacheSite::Latent : CacheSite::Key);
  if (site == CacheSite::Query) return kl * change_by_kl(keys, format) / 2;
  if (site != CacheSite::Key || !has_common_rung(rungs)) return 0;
  return mean_at(keys, SampledFigure::KeyLayerChange, format, rungs[0]) / 2;
}

/// How much the lengths of heads vary beside each other, as a share of |y|²; of the reader where it is least. None
/// where it was not looked at.
std::optional<double> variation_of_shares(const SiteStatistics& site, SampleFormat format) {
  std::map<int32_t, double> squares;  // of mean shares, by reader
  for (const SampledSum& sum : site.sampled)
    if (sum.figure == SampledFigure::HeadShare && sum.format == format)
      squares[sum.reader] += mean_of(sum) * mean_of(sum);
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

}  // namespace

SampleOptions sample_options(const SolveOptions& options) {
  const std::optional<Stand> stand = stand_in(number_format(options.format));
  constexpr int kBelow = 3;  // a scale that clips by a factor of 64
  const bool clips = !policy_of(options).uses_headroom;
  // Without headroom the rung nearest to a scale may be the one below.
  const int below = clips ? kBelow : headroom_of(options) < 2 ? 1 : 0;
  return {stand ? stand->sampled : SampleFormat::E4m3, below};
}

std::optional<SampledDamage> sampled_damage(const CacheStatistics& cache, CacheSite site, const NumberFormat& format,
                                            std::span<const float> scales, const PredictedDamage& predicted) {
  const SiteStatistics& s = cache.at(site);
  const std::optional<Stand> stand = stand_in(format);
  const bool by_channel = scales.size() > s.heads.size();  // no rung has scales of channels
  if (s.sampled.empty() || !stand || by_channel) return std::nullopt;
  PredictedDamage there;
  std::vector<int> rungs;
  for (const int up : {0, 1}) {  // a rung that clips does not stand for a scale that does not
    std::vector<float> rung_scales;
    rungs.clear();
    for (const float scale : scales) {
      rungs.push_back(nearest_rung(alike(format, *stand, static_cast<double>(scale))) + up);
      rung_scales.push_back(scale_of_rung(rungs.back()));
    }
    there = predict_damage(cache, site, stand->format, rung_scales);
    if (predicted.clips || !there.clips) break;
  }
  // A scale is at most a factor of two from its rung, and so is the step of the grid. KL follows with the square where
  // the whole grid is uniform, else less: how the largest channel happens to lie on the grid says little of the others.
  // But that one of both clips more than the other says how much more.
  constexpr CorrectionRange kStep = {0.5, 2}, kOfFloatingPoint = {0.7, 2}, kClips = {0, 1024};
  const bool is_uniform = stand->sampled == SampleFormat::Int8;
  const CorrectionRange of_change = predicted.clips ? kClips : kStep;
  const CorrectionRange of_kl = predicted.clips ? kClips : is_uniform ? kStep.squared() : kOfFloatingPoint;
  SampledDamage damage;
  if (site != CacheSite::Value) {
    const bool query = site == CacheSite::Query;
    const int64_t group = query ? 1 : cache.layout.n_heads / cache.layout.n_kv_heads;
    const std::optional<Worst> worst =
        worst_of(s, query ? SampledFigure::QueryDivergence : SampledFigure::KeyDivergence, stand->sampled,
                 [&](int32_t head) { return rungs[rungs.size() == 1 ? 0 : static_cast<size_t>(head / group)]; });
    if (!worst) return std::nullopt;
    // A query whose logits move by nats may lose the key that it looked at: it then costs as many nats. Each query is
    // rounded on its own, few of them say little.
    if (query) damage.kl_unseen = kUnseenRows * predicted.typical_noise / static_cast<double>(worst->rows);
    const double kl = std::max(worst->mean, kl_of_change(cache, site, stand->sampled, rungs, worst->mean));
    const double at_scale = predicted.noise * predicted.noise, at_rung = there.noise * there.noise;
    damage.kl = corrected(kl, at_scale, at_rung, of_kl);
    if (!predicted.clips && at_rung > 0)
      damage.kl = std::min(*damage.kl, std::max(kl * at_scale / at_rung, at_scale / 2));
    // The rung clips more than the scale, the next one less. How much that is of all keys says little of one that all
    // queries look at.
    if (predicted.clips && !query && at_scale < at_rung && rungs.size() == 1)
      damage.kl =
          between(s, SampledFigure::KeyDivergence, *stand, alike(format, *stand, scales[0])).value_or(*damage.kl);
  }
  damage.on_stream = stream_change(s, stand->sampled, rungs, predicted, there, of_kl, of_change);
  if (site == CacheSite::Value || site == CacheSite::Latent) {
    if (!has_common_rung(rungs)) return std::nullopt;  // no common rung
    const std::optional<Worst> change =
        worst_of(s, SampledFigure::LayerChange, stand->sampled, [&](int32_t) { return rungs[0]; });
    if (!change) return std::nullopt;
    damage.rel = corrected(std::sqrt(change->mean), predicted.rel_raw, there.rel_raw, of_change);
    // Rung and prediction that agree on ordinary rounding, about twice E4M3's of a value, leave nothing to find
    // between.
    constexpr double kManyTokens = 0.1, kOrdinary = 0.05;
    const bool ordinary = std::max(*damage.rel, predicted.rel_raw) < kOrdinary;
    // Where many tokens are at the bottom of the grid, the nearer rung may keep what the scale loses, or lose what it
    // keeps.
    if (predicted.flushed_tokens > kManyTokens && rungs.size() == 1 && !ordinary)
      if (const auto by_both = between(s, SampledFigure::LayerChange, *stand, alike(format, *stand, scales[0])))
        damage.rel = std::sqrt(*by_both);
    // What was measured is of the output as it is. Where offsets that tokens share are most of it, the change of what
    // varies counts, which attention averages as it averages what varies.
    const std::optional<double> variation = variation_of_shares(s, stand->sampled);
    if (predicted.rel_varying > 0)
      damage.rel = std::max(*damage.rel, cache.layout.normed_output && variation
                                             ? change_of_direction(*damage.rel, *variation, predicted.rel_varying)
                                             : predicted.rel_varying);
  }
  return damage;
}

}  // namespace kvcal
