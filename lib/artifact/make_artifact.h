// From statistics to the artifact: what `calibrate` and `solve` both call, so that both give the same bytes.
#pragma once

#include "artifact/artifact.h"
#include "stats/run_record.h"

namespace kvcal {

/// Solves every cache and carries over the blocks of the run record. Throws Error naming layer, site and head where no
/// honest scale exists, and where the record lacks what the artifact needs.
Artifact make_artifact(const Statistics& statistics, const SolveOptions& options);

}  // namespace kvcal
