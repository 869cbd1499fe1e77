#include "solve/sampled_damage.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "solve/damage.h"

namespace kvcal {
namespace {

constexpr double kEnoughRows = 0.9;

/// The rung at which E4M3 rounds most like the format does at the scale: their ranges lie alike.
int nearest_rung(const NumberFormat& format, double scale) {
  const double range = scale * format.smallest_normal / number_format("fp8_e4m3").smallest_normal;
  return std::clamp(static_cast<int>(std::lround(std::log2(range) / 2)), -kMostRung, kMostRung);
}

bool is_e4m3_like(const NumberFormat& format) {
  return format.mantissa_bits == number_format("fp8_e4m3").mantissa_bits && format.min_exponent < 0;
}

/// The sums of one figure, reader and head, by rung.
class Rungs {
 public:
  explicit Rungs(std::span<const SampledSum> sums) : sums_(sums) {}

  /// Mean at the rung, where enough rows were tried there.
  std::optional<double> mean_at(int rung) const {
    uint64_t all = 0;
    const SampledSum* found = nullptr;
    for (const SampledSum& sum : sums_) {
      if (sum.rung == kRungOfOne) all = sum.rows;  // every row was tried at 1.0
      if (sum.rung == rung) found = &sum;
    }
    if (!found || static_cast<double>(found->rows) < kEnoughRows * static_cast<double>(all)) return std::nullopt;
    return mean_of(*found);
  }

 private:
  std::span<const SampledSum> sums_;
};

/// Largest mean of a figure over readers and heads, each at the rung that rung_of(head) names; none where one of them
/// was not tried there.
template <class RungOf>
std::optional<double> worst_mean(const SiteStatistics& site, SampledFigure figure, RungOf rung_of) {
  std::optional<double> worst;
  const auto& all = site.sampled;
  for (auto first = all.begin(); first != all.end();) {
    const auto last = std::find_if(first, all.end(), [&](const SampledSum& s) {
      return s.figure != first->figure || s.reader != first->reader || s.head != first->head;
    });
    if (first->figure == figure) {
      const std::optional<double> mean = Rungs({first, last}).mean_at(rung_of(first->head));
      if (!mean) return std::nullopt;
      worst = std::max(worst.value_or(0), *mean);
    }
    first = last;
  }
  return worst;
}

/// By how much a predicted figure at the scale exceeds that at the rung: about 1, but for data so concentrated that the
/// place of the grid matters, and at the edges of the format.
double correction(double at_scale, double at_rung) {
  constexpr double kMost = 64;
  return at_rung > 0 ? std::clamp(at_scale / at_rung, 1 / kMost, kMost) : 1;
}

}  // namespace

std::optional<SampledDamage> sampled_damage(const CacheStatistics& cache, CacheSite site, const NumberFormat& format,
                                            std::span<const float> scales) {
  const SiteStatistics& s = cache.at(site);
  if (s.sampled.empty() || !is_e4m3_like(format)) return std::nullopt;
  std::vector<int> rungs;
  std::vector<float> rung_scales;
  for (const float scale : scales) {
    rungs.push_back(nearest_rung(format, static_cast<double>(scale)));
    rung_scales.push_back(scale_of_rung(rungs.back()));
  }
  const PredictedDamage here = predict_damage(cache, site, format, scales),
                        there = predict_damage(cache, site, number_format("fp8_e4m3"), rung_scales);
  SampledDamage damage;
  if (site != CacheSite::Value) {
    const int64_t group = cache.layout.n_heads / cache.layout.n_kv_heads;
    damage.kl = worst_mean(s, SampledFigure::KeyDivergence, [&](int32_t head) {
      return rungs[rungs.size() == 1 ? 0 : static_cast<size_t>(head / group)];
    });
    if (!damage.kl) return std::nullopt;
    const double ratio = correction(here.noise, there.noise);
    *damage.kl *= ratio * ratio;
  }
  if (site != CacheSite::Key) {
    if (std::ranges::adjacent_find(rungs, std::not_equal_to{}) != rungs.end()) return std::nullopt;  // no common rung
    damage.rel = worst_mean(s, SampledFigure::LayerChange, [&](int32_t) { return rungs[0]; });
    if (!damage.rel) return std::nullopt;
    damage.rel = std::sqrt(*damage.rel) * correction(here.rel, there.rel);
  }
  return damage;
}

}  // namespace kvcal
