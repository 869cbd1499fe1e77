// Weights of plain decoders whose class is not read, as far as their config tells all that counts.
#pragma once

#include "model/model_spec.h"
#include "model/usual_keys.h"

namespace kvcal {

/// Sets the parameters of all layers where they are those of Llama or, with experts, of Mixtral or Qwen3-MoE: by words,
/// and because every key of the config is known. Else leaves them 0.
void add_plain_parameters(const UsualKeys& keys, ModelSpec& spec);

}  // namespace kvcal
