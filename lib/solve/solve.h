// From the statistics of one cache to its scales, their errors and verdicts.
//
// Nothing is clamped or invented: no observations, a site that is zero throughout, an infinity or NaN, more than one
// value in a million outside the range that was counted, or a scale that is no normal positive float32 is an Error that
// names layer, site, head and, where it is known, the prompt.
#pragma once

#include <optional>
#include <vector>

#include "solve/assessment.h"
#include "solve/convergence.h"
#include "solve/error_model.h"
#include "solve/options.h"
#include "solve/pow2.h"
#include "stats/run_record.h"

namespace kvcal {

struct SolvedSite {
  float scale = 0;                    // for the whole site, at any granularity
  std::vector<float> scale_per_head;  // Granularity::Head only; 1 for a head that is zero throughout
  // Key and value at Granularity::Channel only: [heads · head_dim]; 1 for a channel that is zero throughout.
  std::vector<float> scale_per_channel;
  // Why scales, of the site or of heads, are not 1.0, each reason once; none where the policy does not seek it.
  std::optional<std::vector<Departure>> departures;
  std::vector<int> zero_heads;  // heads without a value but zero: pruned, or padded
  double absmax = 0;
  std::optional<double> envelope;      // keys and rows with known rotary pairs: bound at any position, at least absmax
  bool provides_for_envelope = false;  // the scale was computed from the envelope
  // Per head; at_scale with the scales of heads or channels where there are some. Of a latent row: its latent part, its
  // rope part.
  std::vector<HeadError> at_scale, at_one;
  Assessment assessment;
  Growth growth;
};

/// max(key, value): what a file format with one number per layer can carry.
struct JointScale {
  float scale = 0;
  std::vector<HeadError> key, value;  // per head, at that scale
  Assessment key_assessment, value_assessment;
  bool loses_key = false, loses_value = false;  // to be kept in 16 bits with it, but not with a scale of its own
};

struct SolvedCache {
  SolvedSite key, value, query;
  JointScale joint;   // of key and value
  SolvedSite latent;  // of "mla", instead of key, value and joint: the whole row
  const SolvedSite& at(CacheSite site) const;
};

SolvedCache solve_cache(const CacheStatistics& cache, const RunRecord& run, const SolveOptions& options);

/// The scales of Key, Value or Latent alone, for any format (that of the options is not read): one, or one per head or
/// channel.
/// Throws Error as solve_cache().
std::vector<float> scales_for(const CacheStatistics& cache, CacheSite site, const RunRecord& run,
                              const SolveOptions& options, const NumberFormat& format);

/// The largest magnitude a key channel, or one of a latent row, can have at any position: norms of rotary pairs with
/// their rounding to bf16, absmax of channels that do not turn. None where the pairs are not known. One head (>= 0), or
/// all (-1).
std::optional<double> key_envelope(const CacheStatistics& cache, int64_t head = -1);

/// True when the server may see longer contexts than were measured (CalibrationInfo::longest), or when either
/// length is unknown: keys then need their envelope.
bool exceeds_measured_length(const RunRecord& run, const SolveOptions& options);

/// options.max_model_len, or the model's own (ModelInfo::max_positions); 0 when unknown.
int64_t max_model_len_of(const RunRecord& run, const SolveOptions& options);

}  // namespace kvcal
