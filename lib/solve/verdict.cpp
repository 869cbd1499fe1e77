#include "solve/verdict.h"

#include "base/enum_names.h"

namespace kvcal {
namespace {

constexpr EnumNames<Verdict, 3> kNames{"verdict", {"neutral", "needed", "inadequate"}};

}  // namespace

std::string_view name_of(Verdict verdict) { return kNames[verdict]; }

Verdict verdict_from_name(std::string_view name) { return name == "at_risk" ? Verdict::Neutral : kNames.find(name); }

Verdict verdict_of(const Assessment& assessment) {
  if (assessment.fp8 == Fitness::Keep16) return Verdict::Inadequate;
  return assessment.scale == ScaleNeed::Needed ? Verdict::Needed : Verdict::Neutral;
}

}  // namespace kvcal
