// From a checkpoint folder, a config.json or a scale file to facts.
#pragma once

#include <filesystem>

#include "base/json.h"
#include "doctor/facts.h"

namespace kvcal {

/// A model folder, with or without weights, or a config.json. Throws Error when it is neither.
void take_checkpoint(const std::filesystem::path& path, Facts& facts);

/// The part of it that needs no file.
void take_config(const Json& config, ModelTraits& model);

/// A LoRA adapter's folder, or its adapter_config.json. Throws Error when it is none.
void take_adapter(const std::filesystem::path& path, Facts& facts);

/// A kv-cache-scales.json, or the JSON that --quantization-param-path reads. Throws Error when it is neither.
void take_scale_file(const std::filesystem::path& path, Facts& facts);

/// Called when all inputs are in: whose weights are they? Where both a scale file and a folder with weights are given.
void identify_weights(Facts& facts);

}  // namespace kvcal
