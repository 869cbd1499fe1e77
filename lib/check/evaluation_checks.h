// The groups of checks of an evaluation.
#pragma once

#include <string>

#include "artifact/saved_evaluation.h"
#include "check/finding.h"
#include "servers/model_identity.h"

namespace kvcal {

/// Version and schema of a document whose format says that it is one.
void check_evaluation_schema(const Json& document, Report& report);

/// Figures, counts and lists against each other.
void check_evaluation(const SavedEvaluation& evaluation, Report& report);

/// Against the checkpoint that it is said to be of.
void check_evaluated_model(const SavedEvaluation& evaluation, const ModelIdentity& model, Report& report);

/// A scale file that was named, and one that lies beside it, by their SHA-256; "" for one that is not there.
void check_evaluated_scales(const SavedEvaluation& evaluation, const std::string& named, const std::string& beside,
                            Report& report);

}  // namespace kvcal
