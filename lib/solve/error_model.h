// What storing a site at a given scale does to it, from exact counts.
//
// A floating-point format has the same relative error (2.65 % in E4M3) wherever a value is neither clipped nor below
// the smallest normal number, so the error itself hardly judges a scale. What judges it is what is lost: clipped above
// max · scale, or flushed towards zero below smallest_normal · scale. For keys there is also the noise that rounding
// adds to attention logits: a channel that is much larger than the others spreads its absolute error over all of them,
// whatever the scale is.
#pragma once

#include <span>
#include <vector>

#include "solve/format.h"
#include "stats/statistics.h"

namespace kvcal {

/// One head at one scale.
struct HeadError {
  double error = 0;    // sqrt(Σ(r-x)² / Σx²)
  double clipped = 0;  // share of values with |x| > max · scale
  double lost = 0;  // share of energy clipped or below smallest_normal · scale; the worst of the head and its channels
  // Keys and latent rows only: n = softmax_scale · sqrt(Σ_c E[q_c²] e_c²) in nats, with the varying part of the squared
  // error of each channel (head_model.h), for the worst query head of the group: an RMS estimate of what is added to
  // the logits, too large where attention is saturated. Both parts of a row have that of the whole row.
  double noise = 0;
  double dominating = 0;  // share of n² from the largest channel; two channels that RoPE turns into each other are one
};

/// Error, clipped and lost of a head alone, without its channels.
HeadError error_of(const MagnitudeHistogram& histogram, const NumberFormat& format, float scale);

/// Every head of a site; `scales` has one entry for all heads, one per head, or one per channel, which clip nothing
/// (int8). Latent: of the whole row, its two parts, with one scale.
std::vector<HeadError> errors_of(const CacheStatistics& cache, CacheSite site, const NumberFormat& format,
                                 std::span<const float> scales);

}  // namespace kvcal
