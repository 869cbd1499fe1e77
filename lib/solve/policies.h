// How a scale is chosen: a table of pure functions from an exact histogram and a number format to a scale.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "solve/format.h"
#include "solve/options.h"
#include "stats/statistics.h"

namespace kvcal {

/// What a policy sees: one head, or the heads of a site together.
struct PolicyInput {
  const MagnitudeHistogram& histogram;
  const NumberFormat& format;
  double range = 0;     // largest magnitude to provide for: absmax, or the envelope of rotated keys where that counts
  double headroom = 1;  // absmax, pow2
  double percentile = 100;
};

/// Returns the scale in double, not yet rounded to float32. `range` is positive.
using Policy = double (*)(const PolicyInput&);

struct PolicyEntry {
  std::string_view name;
  Policy scale;
  bool uses_headroom;
  bool seeks_one;            // goes on from there to the power of two nearest to 1.0 that is as good (pow2.h)
  std::string_view summary;  // one line for --help
};

std::span<const PolicyEntry> policies();
const PolicyEntry& policy_named(std::string_view name);  // throws Error with the nearest name
/// The same of a file, which may be of another program: false for a name that is none.
bool seeks_one(std::string_view policy);
std::vector<std::string> policy_names();

/// The policy in force: the one that was chosen, or the default of the format, which may be another than the options'.
const PolicyEntry& policy_of(const SolveOptions& options, const NumberFormat& format);
const PolicyEntry& policy_of(const SolveOptions& options);

double absmax_scale(const PolicyInput& in);      // range · headroom / max
double pow2_scale(const PolicyInput& in);        // the same, rounded up to a power of two; pow2.h goes on from there
double percentile_scale(const PolicyInput& in);  // the given quantile of |x|, zeros included, / max
double mse_scale(const PolicyInput& in);         // least squared error among the candidates
double kl_scale(const PolicyInput& in);          // least divergence of the distribution among the candidates

/// absmax/max · 2^(i/8), i = -32..32, ascending: from a sixteenth to sixteen times the tight scale.
std::vector<double> scale_candidates(const PolicyInput& in);

/// The candidate with the smallest cost; costs within 1e-6 of each other are equal, and then the larger scale wins.
double cheapest(std::span<const double> candidates, std::span<const double> costs);

}  // namespace kvcal
