// What the numbers mean for a user: does this site need its scale, and is the scale enough?
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "solve/error_model.h"
#include "solve/options.h"

namespace kvcal {

/// In ascending severity; a site has the verdict of its worst head.
enum class Verdict : uint8_t {
  Neutral,     // scale 1.0 would do as well
  AtRisk,      // the format's ordinary noise is large for sharp attention (n > limit, no channel dominates): a note
  Needed,      // at 1.0 values are clipped or lost, at the scale they are not (or fewer, where the policy clips)
  Inadequate,  // energy is still lost at the scale, or one channel drowns the others: keep the layer in its dtype
};
std::string_view name_of(Verdict verdict);  // "neutral", "at_risk", "needed", "inadequate"
Verdict verdict_from_name(std::string_view name);

/// Clipped or lost above the limits.
bool damaged(const HeadError& e, const VerdictLimits& limits);

Verdict verdict_of(const HeadError& at_scale, const HeadError& at_one, const VerdictLimits& limits);

/// The worst over heads; both spans have one entry per head.
Verdict verdict_of(std::span<const HeadError> at_scale, std::span<const HeadError> at_one, const VerdictLimits& limits);

}  // namespace kvcal
