// Statistics to artifact in one call, for tests of either end.
#pragma once

#include "artifact/make_artifact.h"
#include "solve/solution.h"

namespace kvcal {

/// A policy whose scales follow the data, however ordinary they are.
inline SolveOptions absmax_options() {
  SolveOptions options;
  options.policy = "absmax";
  return options;
}

inline Artifact solved_artifact(const Statistics& statistics, const SolveOptions& options = absmax_options()) {
  return make_artifact(statistics, solve(statistics, options));
}

}  // namespace kvcal
