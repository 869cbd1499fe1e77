// Statistics to artifact in one call, for tests of either end.
#pragma once

#include "artifact/make_artifact.h"
#include "solve/solution.h"

namespace kvcal {

inline Artifact solved_artifact(const Statistics& statistics, const SolveOptions& options = {}) {
  return make_artifact(statistics, solve(statistics, options));
}

}  // namespace kvcal
