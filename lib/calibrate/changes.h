// What an earlier result was made with, against what a run would be made with now.
#pragma once

#include <string>
#include <vector>

#include "artifact/artifact.h"
#include "calibrate/opened_model.h"
#include "calibrate/options.h"
#include "calibrate/plan.h"

namespace kvcal {

/// What differs of all that a scale file records of its model, its prompts, the program's version and the options that
/// decide its numbers, in a user's words: "prompts", "--policy". Empty: a run would write these numbers again. The
/// processor's class does not count: each gives a right result, and machines of both may take turns. Of large weights
/// the fingerprint sees the ends; tags of prompts are not recorded.
std::vector<std::string> changes_since(const Artifact& earlier, const OpenedModel& model, const RunSources& sources,
                                       const SequencePlan& sequences, const CalibrationOptions& options);

}  // namespace kvcal
