// Weights of models in which each module has a format of its own: what ModelOpt's MIXED_PRECISION lists.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/json.h"
#include "model/model_spec.h"

namespace kvcal {

/// `quantized_layers` of config.json's quantization, else of hf_quant_config.json beside it: from names of modules to
/// their formats. Null where neither has any.
Json quantized_layers(const Json& config, const std::filesystem::path& folder);

/// Bits that the listed modules save against 16, in bytes. `config` is the language model's own; a module whose size
/// follows from neither it nor the spec (of an encoder, of the MTP layer) saves nothing here. `bits_of` gets a module's
/// format.
uint64_t bytes_saved(const Json& listed, const Json& config, const ModelSpec& spec,
                     const std::function<double(const Json&)>& bits_of);

}  // namespace kvcal
