#include "solve/verdict.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/error.h"

namespace kvcal {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"neutral", "at_risk", "needed", "inadequate"};

}  // namespace

std::string_view name_of(Verdict verdict) { return kNames[static_cast<size_t>(verdict)]; }

Verdict verdict_from_name(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) {
    const std::vector<std::string> known(kNames.begin(), kNames.end());
    fail_unknown("verdict", name, known);
  }
  return static_cast<Verdict>(found - kNames.begin());
}

bool damaged(const HeadError& e, const VerdictLimits& limits) {
  return e.clipped > limits.clipped || e.lost > limits.lost;
}

Verdict verdict_of(const HeadError& at_scale, const HeadError& at_one, const VerdictLimits& limits) {
  const bool noisy = at_scale.noise > limits.noise;
  if (at_scale.lost > limits.lost || (noisy && at_scale.dominating > limits.dominating)) return Verdict::Inadequate;
  // A policy may clip a few values on purpose; that is needed as long as 1.0 would do worse.
  const bool helps = at_one.lost > limits.lost || at_scale.clipped < at_one.clipped;
  if (damaged(at_one, limits) && helps) return Verdict::Needed;
  return noisy ? Verdict::AtRisk : Verdict::Neutral;
}

Verdict verdict_of(std::span<const HeadError> at_scale, std::span<const HeadError> at_one,
                   const VerdictLimits& limits) {
  Verdict worst = Verdict::Neutral;
  for (size_t head = 0; head < at_scale.size(); ++head)
    worst = std::max(worst, verdict_of(at_scale[head], at_one[head], limits));
  return worst;
}

}  // namespace kvcal
