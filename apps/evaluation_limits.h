// Whether an evaluation shows that limits are kept: --max-kl, --min-agreement, --min-correct.
#pragma once

#include <optional>
#include <string>

#include "evaluate/conclusion.h"

namespace kvcal {

enum class Kept : uint8_t { Yes, No, Unknown };

struct LimitVerdict {
  Kept kept = Kept::Yes;
  std::string line;  // what was found beside the limit
};

/// A figure that must not be above (mean KL), or not below (shares), a limit. It is kept where all of the interval lies
/// on the right side, broken where all of it lies on the other. Without an interval it is unknown, unless any other
/// prompts would break it too: a mean of 0 after a KL above 0, a share of 1 after a failure.
struct Limit {
  std::string what;  // "mean KL"
  double limit = 0;
  bool is_most = false;
};

LimitVerdict judge(const Limit& limit, const std::string& variant, const Estimate& found, const PromptGroups& groups);

/// Of a mean KL; logits that are not finite break every limit.
LimitVerdict judge_kl(double most, const VariantEvidence& found, const PromptGroups& groups);

/// How many prompts like these, beside them, would move the interval's end to its figure's side of the limit, as far as
/// these can tell; none where the figure lies too close to the limit for that.
std::optional<int64_t> more_prompts(const Estimate& found, double limit, const PromptGroups& groups);

/// "0.0137 (95 %: 0.0121 to 0.0155)".
std::string estimate_text(const Estimate& estimate);

/// "about 14 more prompts".
std::string more_prompts_text(int64_t more);

/// What is missing for an interval: "5 more prompts".
std::string missing_prompts_text(const PromptGroups& groups);

}  // namespace kvcal
