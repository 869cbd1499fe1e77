// The recurrent states of an artifact, for people: what calibrate and solve print with --verbose.
#pragma once

#include "artifact/artifact.h"
#include "base/lines.h"

namespace kvcal {

/// One row per layer, an empty line, and what there is to say of scales; nothing where no state was counted.
Lines states_text(const Artifact& artifact);

}  // namespace kvcal
