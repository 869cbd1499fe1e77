#include "solve/verdict.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/error.h"

namespace kvcal {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"neutral", "needed", "inadequate"};

}  // namespace

std::string_view name_of(Verdict verdict) { return kNames[static_cast<size_t>(verdict)]; }

Verdict verdict_from_name(std::string_view name) {
  if (name == "at_risk") return Verdict::Neutral;
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) {
    const std::vector<std::string> known(kNames.begin(), kNames.end());
    fail_unknown("verdict", name, known);
  }
  return static_cast<Verdict>(found - kNames.begin());
}

Verdict verdict_of(const Assessment& assessment) {
  if (assessment.fp8 == Fitness::Keep16) return Verdict::Inadequate;
  return assessment.scale == ScaleNeed::Needed ? Verdict::Needed : Verdict::Neutral;
}

}  // namespace kvcal
