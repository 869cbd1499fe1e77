// What an evaluation found, in tables for people.
#pragma once

#include <string>

#include "base/lines.h"
#include "evaluate/evaluation_figures.h"
#include "prompts/needles.h"

namespace kvcal {

/// Predictions of all variants and layers, answers and the recipe where there are some, needles found, and what the run
/// vouches for.
Lines result_text(const Evaluation& evaluation, const EvaluationFigures& figures, const NeedleOptions& needles);

}  // namespace kvcal
