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

struct SampledDamage {
  std::optional<double> kl, kl_unseen, rel, on_stream;  // as in DamageAtScale; none where the site has no such figure
};

/// Measured at the scales where they are powers of two that were tried for nine in ten of the sampled rows' tokens, as
/// E4M3's default ones mostly are; between two of those for scales that clip. Else at the next larger power of two, or
/// at one of those below, and multiplied by what statistics predict of the ratio; without `on_stream` there. None where
/// nothing was tried in the format (E4M3 stands for its sibling with another bias) or near, and for scales of channels.
/// `scales` as in assess(). `predicted`: at these.
std::optional<SampledDamage> sampled_damage(const CacheStatistics& cache, CacheSite site, const NumberFormat& format,
                                            std::span<const float> scales, const PredictedDamage& predicted);

}  // namespace kvcal
