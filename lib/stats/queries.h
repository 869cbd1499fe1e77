// Questions to finished statistics. Pure functions; sums in double in a fixed order.
#pragma once

#include <cstdint>
#include <vector>

#include "stats/statistics.h"

namespace kvcal {

/// Exact quantile of |x|: the smallest magnitude v such that at least ceil(q · n) of the n finite values are <= v,
/// zeros included; q in [0, 1], where 0 gives the smallest and 1 the largest. Values below or above a backend's range
/// count as 2^-24 and as absmax. Throws Error when there is no finite value or q is outside.
float quantile(const HeadStatistics& head, double q);
float quantile(const SiteStatistics& site, double q);  // over all heads

/// The head with the largest magnitude; of equals the one whose place is the smallest. The site must have heads.
const HeadStatistics& largest_head(const SiteStatistics& site);

/// All heads as one: counts, absmax and its place.
HeadStatistics pooled(const SiteStatistics& site);

/// What a pass brought: largest |x| of passes 1 .. pass together, and how much the pass added to that of the passes
/// before it, as a share (0.03 = 3 %). Pass 1 adds 0; a first non-zero maximum in a later pass adds infinity.
struct PassGrowth {
  int pass = 0;
  float absmax = 0;
  double added = 0;
};
/// Throws Error when the table has no whole number of prompts per pass.
std::vector<PassGrowth> pass_growth(const SiteStatistics& site, int n_passes);

/// Largest |x| of each prompt over all passes. Throws Error as pass_growth() does.
std::vector<float> prompt_maxima(const SiteStatistics& site, int n_passes);

/// Largest |x| of all passes after 1, 2, ... prompts in the order of their ids: flat at the end where it has converged.
std::vector<float> absmax_by_prompts(const SiteStatistics& site, int n_passes);

/// Moments of one channel over all tokens.
struct ChannelMoments {
  double mean = 0;         // E[x]; 0 for queries, which do not keep it
  double mean_abs = 0;     // E[|x|]; 0 for queries
  double mean_square = 0;  // E[x²]
};
ChannelMoments moments_of(const ChannelStatistics& channel, uint64_t n_tokens);

/// The part of E[x²] that lies in one octave.
double mean_square_of(const OctaveMoments& moments, uint64_t n_tokens);

/// 2^(max(octave, 1) - 134): what a significand of the octave is multiplied by.
double octave_unit(int octave);

}  // namespace kvcal
