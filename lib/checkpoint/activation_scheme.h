// How the server of a quantized checkpoint rounds activations before it multiplies them: what its quantization config
// says, and scales beside the weights.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "tensor/input_rounding.h"

namespace kvcal {

struct ActivationScheme {
  std::string name;          // "fp8_token", "fp8_group_128", "fp8_group_128_pow2", "fp8_tensor": artifacts record it
  InputRounding rounding{};  // none: every weight has a static scale of its own, for the whole tensor
};

/// The scheme of a checkpoint with FP8 weights and activations (fp8, fbgemm_fp8, compressed-tensors, ModelOpt). Throws
/// Error where servers round nothing, and for a format whose rounding is not known here, naming it.
ActivationScheme read_activation_scheme(const Checkpoint& checkpoint);

/// Of the inputs of one weight, "….q_proj.weight" or "….experts.gate_up_proj": none unless it is stored in FP8. Throws
/// Error for one that is quantized in another way, and when its static scale is missing or no positive number.
InputRounding input_rounding(const Checkpoint& checkpoint, const ActivationScheme& scheme, const std::string& weight);

/// The tensor that holds the static scale of a weight's inputs, or "".
std::string input_scale_name(const Checkpoint& checkpoint, std::string_view weight);

}  // namespace kvcal
