// One word for readers of version 1.0 of the scale file, which knew one scale of severity for two questions.
#pragma once

#include <cstdint>
#include <string_view>

#include "solve/assessment.h"

namespace kvcal {

/// In ascending severity: keep16 -> inadequate, else a scale that is needed -> needed, else neutral.
enum class Verdict : uint8_t { Neutral, Needed, Inadequate };
std::string_view name_of(Verdict verdict);  // "neutral", "needed", "inadequate"

/// "at_risk", of files up to version 1.2 where rounding could be felt, is neutral.
Verdict verdict_from_name(std::string_view name);

Verdict verdict_of(const Assessment& assessment);

}  // namespace kvcal
