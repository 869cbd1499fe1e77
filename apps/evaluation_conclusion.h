// How an evaluation ends: what was shown, with intervals, and the one thing to do that follows.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "artifact/artifact.h"
#include "base/lines.h"
#include "evaluate/evaluation_figures.h"

namespace kvcal {

/// What the command line had.
struct ConclusionContext {
  std::string model, scales, out;  // scales: the first file, "" without one
  std::string prompts;             // options that name these prompts, as shell words, each with a space before it
  std::string dtype;               // of the scales, fp8_e4m3 without
  std::filesystem::path folder;    // of the model
  const Artifact* file = nullptr;  // the first; null without one
  bool file_is_needed = false;     // whether it says of a site that 1.0 is worse, or clips or may clip
  double max_kl = 0;               // --max-kl, or what the documents suggest
  std::optional<double> min_agreement, min_correct;
};

/// docs/evaluating.md has the evidence.
inline constexpr double kSuggestedMaxKl = 0.02;

/// Figures with intervals, and variants against each other.
Lines shown_text(const Conclusion& conclusion, const std::optional<Looks>& looks);

/// Empty where nothing follows that is known to be possible.
Lines next_text(const ConclusionContext& context, const Evaluation& evaluation, const Conclusion& conclusion);

}  // namespace kvcal
