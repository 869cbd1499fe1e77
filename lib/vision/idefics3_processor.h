// Idefics3ImageProcessor and SmolVLMImageProcessor of the reference framework: pictures are cut into square tiles.
#pragma once

#include "vision/processor_settings.h"

namespace kvcal {

PatchRules read_idefics3_processor(const Json& settings, const PatchShape& shape);

}  // namespace kvcal
