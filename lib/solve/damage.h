// What rounding a site to a scale does to attention, predicted from its statistics alone: the rule for scales that no
// sample was taken near, for formats that are not sampled, and for queries.
#pragma once

#include <span>

#include "solve/format.h"
#include "stats/statistics.h"

namespace kvcal {

/// Of the worst head, or of the whole site.
struct PredictedDamage {
  // Keys, rows, queries: what is added to the logits, RMS in nats, without what all keys have in common. Keys:
  // error_model.h. Queries: softmax_scale · sqrt(Σ_c e_c² Var k_c); E[k_c²] beside a learned sink, which has no key.
  double noise = 0;
  // Queries: what may change the order of logits, for the query in the middle, where a few large ones are most of the
  // noise.
  double typical_noise = 0;
  // Values, latent part: relative RMS change of the output, channels weighted by their columns of the output
  // projection: sqrt(Σ w² e² / Σ w² E[v²]), or rel_varying, the larger. Where heads have learned sinks, the first
  // alone.
  double rel = 0;
  double rel_raw = 0;      // the first of the two alone
  double rel_varying = 0;  // the same of what varies within populations (head_model.h), where offsets are most of them
  // Values: share of tokens whose row is below 2^-7 · scale throughout; of heads that matter only.
  double flushed_tokens = 0;
  bool clips = false;  // some value is off by more than rounding: |x| > 17/16 of the largest stored
};

/// `scales` has one entry for all heads, one per head, or one per channel. Latent: of the row. Tokens count as flushed
/// where they are at the smallest scale of their head's channels.
PredictedDamage predict_damage(const CacheStatistics& cache, CacheSite site, const NumberFormat& format,
                               std::span<const float> scales);

}  // namespace kvcal
