#include "solve/assessment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "base/error.h"
#include "solve/sampled_damage.h"

namespace kvcal {
namespace {

constexpr std::array<std::string_view, 2> kNeeds = {"any", "needed"};
constexpr std::array<std::string_view, 3> kFitnesses = {"fine", "check", "keep16"};
constexpr std::array<std::string_view, 2> kBases = {"attention", "histogram"};
constexpr std::array<std::string_view, 6> kFigures = {"kl", "kl_unseen", "rel", "noise", "flushed_tokens", "clipped"};

template <class Enum, size_t N>
Enum from_name(const std::array<std::string_view, N>& names, const char* what, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) fail_unknown(what, name, std::vector<std::string>(names.begin(), names.end()));
  return static_cast<Enum>(found - names.begin());
}

// An error is clearly larger when it is twice as large: limits are round numbers, and a scale that is said to be needed
// must be. Where the error crosses a limit, a third more is enough; less is what a sample may be off by. It is felt
// from half its limit on.
constexpr double kClearlyWorse = 2, kWorseClass = 4.0 / 3, kFelt = 0.5;

/// In units of the figure's limit; KL grows with the square of the error.
double severity_of(Figure figure, double value, const FigureLimits& limits) {
  const double ratio = value / limits.check;
  return figure == Figure::Kl ? std::sqrt(ratio) : ratio;
}

/// Ruined beyond doubt: predicted to be, or clearly worse than where ruin begins.
bool is_lost(const DamageAtScale& damage, const AssessmentLimits& all) {
  if (damage.fitness != Fitness::Keep16) return false;
  const FigureLimits* limits = limits_of(all, damage.decided_by);
  return damage.by == Basis::Histogram || !limits ||
         damage.severity > kClearlyWorse * severity_of(damage.decided_by, limits->keep16, *limits);
}

/// Takes a figure into account: what is furthest beyond its limits decides.
void consider(DamageAtScale& damage, Figure figure, double value, const FigureLimits& limits) {
  const double severity = severity_of(figure, value, limits);
  const Fitness fitness = value > limits.keep16  ? Fitness::Keep16
                          : value > limits.check ? Fitness::Check
                                                 : Fitness::Fine;
  if (fitness < damage.fitness || (fitness == damage.fitness && severity < damage.severity)) return;
  damage.fitness = fitness;
  damage.severity = severity;
  damage.decided_by = figure;
}

/// Never better than that, whatever the other figures say.
void at_best(DamageAtScale& damage, Fitness fitness, Figure figure) {
  if (damage.fitness >= fitness) return;
  damage.fitness = fitness;
  damage.decided_by = figure;
  damage.severity = std::max(damage.severity, 1.0);
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
    if (damage.noise && !is_one && predicted.typical_noise > limits.noise.keep16) damage.kl_unseen = sampled->kl_unseen;
    if (sampled->rel) damage.rel = sampled->rel;
    damage.on_stream = sampled->on_stream;
  }
  const bool tried = std::ranges::all_of(scales, [&](float scale) { return is_tried(format, scale); });
  judge(damage, site != CacheSite::Query && !tried, limits);
  return damage;
}

}  // namespace

std::string_view name_of(ScaleNeed need) { return kNeeds[static_cast<size_t>(need)]; }
std::string_view name_of(Fitness fitness) { return kFitnesses[static_cast<size_t>(fitness)]; }
std::string_view name_of(Basis basis) { return kBases[static_cast<size_t>(basis)]; }
std::string_view name_of(Figure figure) { return kFigures[static_cast<size_t>(figure)]; }

ScaleNeed scale_need_from_name(std::string_view name) { return from_name<ScaleNeed>(kNeeds, "answer", name); }
Fitness fitness_from_name(std::string_view name) { return from_name<Fitness>(kFitnesses, "answer", name); }
Basis basis_from_name(std::string_view name) { return from_name<Basis>(kBases, "evidence", name); }
Figure figure_from_name(std::string_view name) { return from_name<Figure>(kFigures, "figure", name); }

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

const FigureLimits* limits_of(const AssessmentLimits& limits, Figure figure) {
  switch (figure) {
    case Figure::Kl:
    case Figure::KlUnseen:
      return &limits.kl;
    case Figure::Rel:
      return &limits.rel;
    case Figure::Noise:
      return &limits.noise;
    case Figure::FlushedTokens:
      return &limits.flushed_tokens;
    case Figure::Clipped:
      break;
  }
  return nullptr;
}

void judge(DamageAtScale& damage, bool one_draw, const AssessmentLimits& limits) {
  damage.fitness = Fitness::Fine;
  damage.severity = -1;  // below any figure's
  const bool measured = damage.by == Basis::Attention;
  if (measured && damage.kl) consider(damage, Figure::Kl, *damage.kl, limits.kl);
  if (damage.rel) consider(damage, Figure::Rel, *damage.rel, limits.rel);
  if (!measured && damage.noise) consider(damage, Figure::Noise, *damage.noise, limits.noise);
  if (!measured && damage.flushed_tokens)
    consider(damage, Figure::FlushedTokens, *damage.flushed_tokens, limits.flushed_tokens);
  // Keys clipped on purpose may be those that all queries look at.
  if (!measured && damage.clips && damage.noise) at_best(damage, Fitness::Check, Figure::Clipped);
  // What was measured is near its limit, and what was predicted beyond its own: rows beyond the sample may be as well.
  constexpr double kNear = 0.75;
  if (measured && damage.severity > kNear && damage.noise.value_or(0) > limits.noise.check)
    at_best(damage, Fitness::Check, Figure::Noise);
  // Where rounding moves a logit by nats, it moves otherwise at the scale than at the one that was tried. Of queries,
  // each rounded on its own, many make a mean, and few do not; of one key that all look at none do.
  if (measured && one_draw && damage.noise.value_or(0) > limits.noise.keep16)
    at_best(damage, Fitness::Check, Figure::Noise);
  // What 3 of n rows may have is unlikely to be more than that; of log 2 in n rows it is as likely as not.
  const double unseen = measured ? damage.kl_unseen.value_or(0) : 0, unseen_limit = limits.kl.keep16;
  if (unseen > unseen_limit) at_best(damage, Fitness::Check, Figure::KlUnseen);
  if (unseen > kUnseenRows / std::numbers::ln2 * unseen_limit) at_best(damage, Fitness::Keep16, Figure::KlUnseen);
  damage.severity = std::max(damage.severity, 0.0);
}

ScaleNeed scale_need(const DamageAtScale& at_scale, const DamageAtScale& at_one, const AssessmentLimits& limits) {
  if (is_lost(at_scale, limits)) return ScaleNeed::Any;
  const bool in_worse_class = at_one.fitness > at_scale.fitness;
  const bool measured = at_scale.by == Basis::Attention && at_one.by == Basis::Attention;
  if (in_worse_class && !measured && at_one.decided_by != at_scale.decided_by)
    return ScaleNeed::Needed;  // not to be compared
  const double worse = in_worse_class ? kWorseClass : kClearlyWorse;
  return at_one.severity > std::max(kFelt, worse * at_scale.severity) ? ScaleNeed::Needed : ScaleNeed::Any;
}

Assessment assess(const CacheStatistics& cache, CacheSite site, const SolveOptions& options,
                  std::span<const float> scales) {
  constexpr float kOne = 1;
  Assessment a;
  a.at_scale = damage_at(cache, site, options, scales, false);
  a.at_one = damage_at(cache, site, options, std::span(&kOne, 1), true);
  a.fp8 = a.at_scale.fitness;
  a.scale = scale_need(a.at_scale, a.at_one, options.limits);
  return a;
}

}  // namespace kvcal
