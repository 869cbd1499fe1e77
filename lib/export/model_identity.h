// What a checkpoint says of itself, as far as a scale file can be checked against it.
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
