// Whether an evaluation can be believed: by its schema, by its own figures, and for the model and scales it is of.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "check/finding.h"
#include "servers/model_identity.h"

namespace kvcal {

struct EvaluationChecks {
  const ModelIdentity* model = nullptr;  // that it is said to be of; null = not said
  std::filesystem::path scales;          // that it is said to be of; empty = not said
  std::filesystem::path file;            // where it stands: a scale file of the usual name beside it is compared, too
};

/// Whether the text is that of an evaluation, sound or not.
bool is_evaluation_text(std::string_view text);

/// Checks such a text. Findings have line numbers. Throws Error only for a scale file that was named and cannot be
/// read.
Report validate_evaluation(std::string_view text, const EvaluationChecks& checks);

}  // namespace kvcal
