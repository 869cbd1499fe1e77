// Whether a scale file is fit to be served: by its schema, by the relations between its numbers, and for a model.
#pragma once

#include <string>
#include <string_view>

#include "check/finding.h"
#include "servers/model_identity.h"

namespace kvcal {

constexpr size_t kMostArtifactBytes = size_t{64} << 20;

/// Checks the text of a kv-cache-scales.json. `model`: what it is to be served with, or null. Findings have line
/// numbers. Throws Error only when the schema itself is broken.
Report validate_artifact(std::string_view text, std::string_view schema, const ModelIdentity* model = nullptr);

}  // namespace kvcal
