// An artifact's figures for people and for scripts: what calibrate and solve print.
#pragma once

#include <string>

#include "artifact/artifact.h"
#include "base/lines.h"

namespace kvcal {

/// What was measured, and in which format, a line and an empty one.
Lines result_heading(const Artifact& artifact);

/// One row per layer and site: absmax, scale, error at the scale and at 1.0, the figures that decided, what packing the
/// prompts otherwise added, the two answers; and an empty line. Unless `all`, without sites that are fine at any scale:
/// where no other is left nothing.
Lines result_table(const Artifact& artifact, bool all);

/// What the verdicts and figures mean for the user, a few lines; warnings first.
Lines result_advice(const Artifact& artifact);

/// {"layers": [{"index", "name", "key": {"scale", "absmax", "verdict"}, ...}], "converged", "verdicts": {...}}
Json result_json(const Artifact& artifact);

}  // namespace kvcal
