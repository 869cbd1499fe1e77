// What an evaluation found, in tables for people.
#pragma once

#include <string>

#include "evaluate/evaluation_figures.h"

namespace kvcal {

/// Predictions of all variants and layers, answers and the recipe where there are some, and what the run vouches for.
std::string result_text(const Evaluation& evaluation, const EvaluationFigures& figures);

}  // namespace kvcal
