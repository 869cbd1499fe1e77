// What was measured at a scale: the sampled figures at its rung.
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

/// Whether samples in the format can have been taken at the scale itself: whether it is a power of two.
bool is_tried(const NumberFormat& format, float scale);

/// None where nothing was tried in the format (E4M3 stands for its sibling with another bias, which clips at 15/14 of
/// it), or less than nine in ten of the sampled rows' tokens were tried at a rung that stands for a scale: the scale is
/// too far from what their sequences needed, or each channel has one of its own. A scale that is no power of two is
/// judged by the nearest, by the worse of its neighbors where it clips. `scales` as in assess(). `predicted`: at these
/// scales.
std::optional<SampledDamage> sampled_damage(const CacheStatistics& cache, CacheSite site, const NumberFormat& format,
                                            std::span<const float> scales, const PredictedDamage& predicted);

}  // namespace kvcal
