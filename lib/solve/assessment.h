// Two questions about a site, and what decided them: does its scale matter, and is the format fine here at all?
//
// Both are judged by what rounding does to attention, not by what it does to numbers: measured on sampled rows where
// the scale is near one that was tried (ops/attention_sample.h), predicted from the statistics where it is not
// (damage.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "solve/damage.h"
#include "solve/options.h"
#include "stats/statistics.h"

namespace kvcal {

/// Does the scale matter? Needed: at 1.0 the site would be clearly worse, and not fine or nearly so.
enum class ScaleNeed : uint8_t { Any, Needed };
std::string_view name_of(ScaleNeed need);  // "any", "needed"
ScaleNeed scale_need_from_name(std::string_view name);

/// Is the format fine here, at this scale? Keep16: keep the layer in the model's dtype. Ascending.
enum class Fitness : uint8_t { Fine, Keep16 };
std::string_view name_of(Fitness fitness);  // "fine", "keep16"
Fitness fitness_from_name(std::string_view name);

enum class Basis : uint8_t { Attention, Histogram };
std::string_view name_of(Basis basis);  // "attention", "histogram"
Basis basis_from_name(std::string_view name);

/// Which figure was furthest beyond its limit, or nearest to it; or what cannot be known without it.
enum class Figure : uint8_t { Kl, KlUnseen, Rel, Noise, FlushedTokens, Clipped };
std::string_view name_of(Figure figure);  // "kl", "kl_unseen", "rel", "noise", "flushed_tokens", "clipped"
Figure figure_from_name(std::string_view name);

/// A site at one scale.
struct DamageAtScale {
  std::optional<double> kl;  // measured: mean KL of attention weights of the worst query head, in nats
  // Queries whose logits move by nats: the KL that rows beyond the sample may have.
  std::optional<double> kl_unseen;
  // Measured, or predicted: relative change of what the layer adds to the residual stream. Of keys and queries measured
  // alone, and not where the output is normed.
  std::optional<double> rel;
  // Predicted, in nats. Keys, latent rows, queries; not where logits have a soft cap and were measured.
  std::optional<double> noise;
  std::optional<double> flushed_tokens;  // predicted; values, latent rows
  // Measured: mean of |what rounding changes of the layer's output|² / |residual stream|². Neither it nor
  // another figure of a layer alone orders layers by harm; it decides nothing.
  std::optional<double> on_stream;
  bool clips = false;
  Basis by = Basis::Histogram;
  Figure decided_by = Figure::Rel;
  double severity = 0;  // the deciding figure in units of its limit (KL: the root of that)
  Fitness fitness = Fitness::Fine;
  bool operator==(const DamageAtScale&) const = default;
};

struct Assessment {
  ScaleNeed scale = ScaleNeed::Any;
  Fitness fp8 = Fitness::Fine;
  DamageAtScale at_scale, at_one;
  bool operator==(const Assessment&) const = default;
};

/// `scales` has one entry, one per head, or one per channel; latent: of the row. Sites without statistics of their own
/// are fine.
Assessment assess(const CacheStatistics& cache, CacheSite site, const SolveOptions& options,
                  std::span<const float> scales);

/// Decides by the figures that are there: fills fitness, decided_by and severity.
void judge(DamageAtScale& damage, const AssessmentLimits& limits);

/// The value of the figure that decided; none for Clipped, which has none, and in files of version 1.0.
std::optional<double> deciding_value(const DamageAtScale& damage);

/// None for Clipped, which has none.
std::optional<double> limit_of(const AssessmentLimits& limits, Figure figure);

/// Needed where the error at 1.0 is clearly larger, and can be felt; not where the layer is ruined beyond doubt at the
/// scale as well.
ScaleNeed scale_need(const DamageAtScale& at_scale, const DamageAtScale& at_one);

}  // namespace kvcal
