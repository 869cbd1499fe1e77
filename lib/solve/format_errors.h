// What each site would lose in other formats than the chosen one, side by side: where one static scale is as good as
// scales that follow the data, and what a cheaper format costs.
#pragma once

#include <optional>
#include <span>

#include "solve/solve.h"

namespace kvcal {

/// Relative RMS error sqrt(Σ(x' - x)² / Σx²) of the worst head in each format; of a latent row: of the worse of its two
/// parts. None where no scale can be solved, or no rows were sampled.
struct FormatErrors {
  // From every value: exact, at the scales that the policy chooses for the format.
  std::optional<double> e4m3, e5m2, int8;
  // Each channel at its own absmax / 127. Predicted from its moments: within an octave its values are taken to be
  // spread evenly over neighboring bf16 numbers, with the mean and the variance that they have there.
  std::optional<double> int8_per_channel;
  // From sampled rows (stats/row_formats.h). No policy has a say.
  std::optional<double> e4m3_per_row, nvfp4;
  // As vLLM's int4_per_token_head. None of latent rows either, and of statistics of an older program.
  std::optional<double> int4_per_row;
  uint64_t sampled_rows = 0;
};

/// Key, Value or Latent, the whole row. Of the options the format is not read.
FormatErrors format_errors(const CacheStatistics& cache, CacheSite site, const RunRecord& run,
                           const SolveOptions& options);

/// How tables and JSON name them, in the order of their cost for the cache.
struct FormatColumn {
  const char* key;
  const char* title;
  std::optional<double> FormatErrors::*error;
};
std::span<const FormatColumn> format_columns();

}  // namespace kvcal
