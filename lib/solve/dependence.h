// Does the range of a site hang on one prompt, or on the prompts of one tag? The largest magnitude is measured again
// without them (a jackknife).
//
// The limit is a ratio of 2 (AssessmentLimits::dependence): without that prompt the scale would have been made with
// headroom 2 for a range that the prompt itself exceeds, so one prompt more or less decides whether values are clipped.
// The two largest of many prompts are rarely that far apart by chance: practically never where magnitudes have normal
// or exponential tails, in 3 % of sites where they are log-normal, but in 6 to 50 % where they follow power laws of
// exponents 4 to 1, whose ranges do hang on single prompts. The 20 % of AssessmentLimits::growth would name two
// log-normal sites of five. Figures: tests/reference/make_coverage_goldens.py.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "stats/run_record.h"

namespace kvcal {

/// Without a prompt (or a tag's prompts) the largest magnitude falls by this factor; none where nothing but zeros
/// stays.
struct PromptDependence {
  size_t prompt = 0;  // index in RunRecord::prompt_ids
  std::optional<double> ratio;
  bool operator==(const PromptDependence&) const = default;
};
struct TagDependence {
  std::string tag;
  std::optional<double> ratio;
  bool operator==(const TagDependence&) const = default;
};

/// maxima: largest magnitude of each prompt. The prompt whose removal lowers the largest by more than the factor
/// `limit`, if there is one; of a single prompt nothing can be said.
std::optional<PromptDependence> depends_on_prompt(std::span<const float> maxima, double limit);

/// The tag with the largest such factor above the limit, of equal ones the first by name. Tags that all prompts have
/// say nothing.
std::optional<TagDependence> depends_on_tag(std::span<const float> maxima, const PromptTags& tags, double limit);

}  // namespace kvcal
