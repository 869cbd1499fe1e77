#include "solve/assessment.h"

#include <algorithm>
#include <cmath>

#include "base/enum_names.h"
#include "solve/sampled_damage.h"

namespace kvcal {
namespace {

constexpr EnumNames<ScaleNeed, 2> kNeeds{"answer", {"any", "needed"}};
constexpr EnumNames<Fitness, 2> kFitnesses{"answer", {"fine", "keep16"}};
constexpr EnumNames<Basis, 2> kBases{"evidence", {"attention", "histogram"}};
constexpr EnumNames<Figure, 6> kFigures{"figure", {"kl", "kl_unseen", "rel", "noise", "flushed_tokens", "clipped"}};

// Severities: errors in units of their limits. A scale that is said to be needed must be, so an error is clearly larger
// where it is more than a sample may be off by; it is felt from a third of its limit on, and all is lost at
// two and a half times the limit.
constexpr double kClearlyLarger = 1.75, kFelt = 1.0 / 3, kLost = 2.5;

// Noise in nats that reorders logits.
constexpr double kReorders = 1;

// Where it does, rows beyond the sample may be as far from the mean of those in it: the KL has to be below .6² of its
// limit.
constexpr double kNear = 0.6;

bool is_divergence(Figure figure) { return figure == Figure::Kl || figure == Figure::KlUnseen; }

/// KL grows with the square of the error.
double severity_of(double value, Figure figure, const AssessmentLimits& limits) {
  const double ratio = value / *limit_of(limits, figure);
  return is_divergence(figure) ? std::sqrt(ratio) : ratio;
}

DamageAtScale damage_at(const CacheStatistics& cache, CacheSite site, const SolveOptions& options,
                        std::span<const float> scales, bool is_one) {
  const NumberFormat& format = number_format(options.format);
  const AssessmentLimits& limits = options.limits;
  const PredictedDamage predicted = predict_damage(cache, site, format, scales);
  DamageAtScale damage;
  damage.clips = predicted.clips;
  const bool meets_logits = site != CacheSite::Value, is_output = site == CacheSite::Value || site == CacheSite::Latent;
  if (meets_logits) damage.noise = predicted.noise;
  if (is_output) {
    damage.rel = predicted.rel;
    damage.flushed_tokens = predicted.flushed_tokens;
  }
  if (const std::optional<SampledDamage> sampled = sampled_damage(cache, site, format, scales, predicted)) {
    damage.by = Basis::Attention;
    damage.kl = sampled->kl;
    // Noise is that of logits before a soft cap, which takes nearly all of what is beyond it, and most where logits are
    // largest: behind it no figure tells more than the measured ones.
    if (cache.layout.capped_logits) damage.noise.reset();
    if (damage.noise && !is_one && predicted.typical_noise > kReorders) damage.kl_unseen = sampled->kl_unseen;
    if (sampled->rel) damage.rel = sampled->rel;
    damage.on_stream = sampled->on_stream;
  }
  judge(damage, limits);
  return damage;
}

}  // namespace

std::string_view name_of(ScaleNeed need) { return kNeeds[need]; }
std::string_view name_of(Fitness fitness) { return kFitnesses[fitness]; }
std::string_view name_of(Basis basis) { return kBases[basis]; }
std::string_view name_of(Figure figure) { return kFigures[figure]; }

ScaleNeed scale_need_from_name(std::string_view name) { return kNeeds.find(name); }
Fitness fitness_from_name(std::string_view name) { return kFitnesses.find(name); }
Basis basis_from_name(std::string_view name) { return kBases.find(name); }
Figure figure_from_name(std::string_view name) { return kFigures.find(name); }

std::optional<double> deciding_value(const DamageAtScale& damage) {
  switch (damage.decided_by) {
    case Figure::Kl:
      return damage.kl;
    case Figure::KlUnseen:
      return damage.kl_unseen;
    case Figure::Rel:
      return damage.rel;
    case Figure::Noise:
      return damage.noise;
    case Figure::FlushedTokens:
      return damage.flushed_tokens;
    case Figure::Clipped:
      break;
  }
  return std::nullopt;
}

std::optional<double> limit_of(const AssessmentLimits& limits, Figure figure) {
  switch (figure) {
    case Figure::Kl:
    case Figure::KlUnseen:
      return limits.kl;
    case Figure::Rel:
      return limits.rel;
    case Figure::Noise:
      return limits.noise;
    case Figure::FlushedTokens:
      return limits.flushed_tokens;
    case Figure::Clipped:
      break;
  }
  return std::nullopt;
}

void judge(DamageAtScale& damage, const AssessmentLimits& limits) {
  damage.severity = -1;  // below any figure's
  const auto consider = [&](Figure figure, std::optional<double> value) {
    const double severity = value ? severity_of(*value, figure, limits) : -1;
    if (severity <= damage.severity) return;
    damage.severity = severity;
    damage.decided_by = figure;
  };
  const bool measured = damage.by == Basis::Attention;
  consider(Figure::Rel, damage.rel);
  if (measured) {
    consider(Figure::Kl, damage.kl);
    // Where those that were seen lose the layer, it is lost whatever the others do.
    if (damage.severity <= 1) consider(Figure::KlUnseen, damage.kl_unseen);
  } else {
    consider(Figure::Noise, damage.noise);
    consider(Figure::FlushedTokens, damage.flushed_tokens);
  }
  damage.severity = std::max(damage.severity, 0.0);
  damage.fitness = damage.severity > 1 ? Fitness::Keep16 : Fitness::Fine;
  if (damage.fitness == Fitness::Keep16) return;
  const bool is_near = damage.kl.value_or(0) > kNear * kNear * limits.kl && damage.noise.value_or(0) > kReorders;
  // Keys clipped on purpose may be those that all queries look at.
  const bool clips_keys = damage.clips && damage.noise;
  if (!(measured ? is_near : clips_keys)) return;
  damage.decided_by = measured ? Figure::Noise : Figure::Clipped;
  damage.fitness = Fitness::Keep16;
  damage.severity = 1;
}

ScaleNeed scale_need(const DamageAtScale& at_scale, const DamageAtScale& at_one) {
  // What no row of the sample shows may be beyond its limit, and no more is known: then other figures are below theirs,
  // and a scale at which they are not is no better.
  const double severity =
      at_scale.decided_by == Figure::KlUnseen ? std::min(at_scale.severity, 1.0) : at_scale.severity;
  if (severity > kLost) return ScaleNeed::Any;
  return at_one.severity > std::max(kFelt, kClearlyLarger * severity) ? ScaleNeed::Needed : ScaleNeed::Any;
}

Assessment assess(const CacheStatistics& cache, CacheSite site, const SolveOptions& options,
                  std::span<const float> scales) {
  constexpr float kOne = 1;
  Assessment a;
  a.at_scale = damage_at(cache, site, options, scales, false);
  a.at_one = damage_at(cache, site, options, std::span(&kOne, 1), true);
  a.fp8 = a.at_scale.fitness;
  a.scale = scale_need(a.at_scale, a.at_one);
  return a;
}

}  // namespace kvcal
