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

Verdict verdict_of(const Assessment& assessment) {
  if (assessment.fp8 == Fitness::Keep16) return Verdict::Inadequate;
  if (assessment.scale == ScaleNeed::Needed) return Verdict::Needed;
  return assessment.fp8 == Fitness::Check ? Verdict::AtRisk : Verdict::Neutral;
}

}  // namespace kvcal
