// Where config.json says how a checkpoint is quantized: the one list of places, for those who describe weights, ask
// what servers see, edit it for an export or leave it out of an identity.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/json.h"

namespace kvcal {

/// Keys of the object itself; older files of compressed-tensors have the second.
constexpr std::array<const char*, 2> kQuantizationKeys = {"quantization_config", "compression_config"};
/// MLX writes this one, beside the first in some files.
constexpr const char* kMlxQuantizationKey = "quantization";
/// Keys of language models inside a config, which may have one of their own.
constexpr std::array<const char*, 4> kNestedConfigs = {"text_config", "llm_config", "language_config",
                                                       "thinker_config"};

struct QuantizationConfig {
  std::vector<std::string> path;  // of keys that lead to it: {"text_config", "quantization_config"}
  const Json* object = nullptr;   // in the config that was searched
  bool is_mlx = false;            // MLX's object is beside it, or it is that
};

/// All there are at the top and in up to two levels of nested configs, what is outside before what is inside.
std::vector<QuantizationConfig> quantization_configs(const Json& config);

}  // namespace kvcal
