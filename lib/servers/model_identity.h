// The identity of a checkpoint, against which a scale file is checked.
#pragma once

#include <filesystem>
#include <string>

#include "model/model_spec.h"

namespace kvcal {

struct ModelIdentity {
  std::filesystem::path folder;  // where config.json and the weights are
  ModelSpec spec;
  std::string tensor_prefix;
  std::string config_sha256, weights_fingerprint;
};

/// Opens a checkpoint folder. Throws Error.
ModelIdentity identify_model(const std::filesystem::path& folder);

}  // namespace kvcal
