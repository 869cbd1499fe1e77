// What was measured near a scale: the sampled figures at the nearest rung.
#pragma once

#include <optional>
#include <span>

#include "solve/damage.h"
#include "solve/format.h"
#include "solve/options.h"
#include "stats/attention_sampler.h"
#include "stats/statistics.h"

namespace kvcal {

/// How to sample for these options: in the cache's format, and below what clips nothing where the policy may clip.
SampleOptions sample_options(const SolveOptions& options);

/// What none of n rows shows may be in 3 of n (the rule of three).
constexpr double kUnseenRows = 3;

struct SampledDamage {
  std::optional<double> kl, kl_unseen, rel, on_stream;  // as in DamageAtScale; none where the site has no such figure
};

/// None where nothing was tried in the format (E4M3 stands for its sibling with another bias), or less than nine in ten
/// of the sampled rows were tried at the rung nearest to a scale: the scale is too far from what their sequences
/// needed, or each channel has one of its own. The figures are corrected by what the statistics say of the difference
/// between rung and scale. `scales` as in assess(). `predicted`: at these scales.
std::optional<SampledDamage> sampled_damage(const CacheStatistics& cache, CacheSite site, const NumberFormat& format,
                                            std::span<const float> scales, const PredictedDamage& predicted);

}  // namespace kvcal
