// The plan of a run for people and for scripts.
#pragma once

#include <string>

#include "base/json.h"
#include "base/lines.h"
#include "calibrate/plan.h"

namespace kvcal {

/// Lines for standard error.
Lines plan_text(const SequencePlan& sequences, const MemoryPlan& memory, const ModelSpec& spec);

/// Memory in bytes.
Json plan_json(const SequencePlan& sequences, const MemoryPlan& memory);

}  // namespace kvcal
