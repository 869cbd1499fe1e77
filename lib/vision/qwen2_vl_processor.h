// Qwen2VLImageProcessor of the reference framework, which the Qwen-VL models from Qwen2-VL to Qwen3.5 share, and
// Glm4vImageProcessor, which cuts alike: it counts pixels of all frames, and lets short sides grow first.
#pragma once

#include "vision/processor_settings.h"

namespace kvcal {

/// The grid of a picture that is more than 200 times as long as wide, which the framework refuses, is an Error.
PatchRules read_qwen2_vl_processor(const Json& settings, const PatchShape& shape);
PatchRules read_glm4v_processor(const Json& settings, const PatchShape& shape);

}  // namespace kvcal
