// From statistics and scales to the artifact: what `calibrate` and `solve` both call, so that both give the same bytes.
#pragma once

#include "artifact/artifact.h"
#include "solve/solution.h"
#include "stats/run_record.h"

namespace kvcal {

/// Gathers what was measured and solved, and carries over the blocks of the run record. `solution`: solve() of these
/// statistics. Throws Error where the record lacks what the artifact needs.
Artifact make_artifact(const Statistics& statistics, const Solution& solution);

/// What the file says of the choices that scales were solved with. max_model_len: max_model_len_of().
ArtifactQuantization quantization_of(const SolveOptions& options, int64_t max_model_len);

}  // namespace kvcal
