// Gemma3ImageProcessor of the reference framework: every picture becomes a square, whatever its shape.
#pragma once

#include "vision/processor_settings.h"

namespace kvcal {

PatchRules read_gemma3_processor(const Json& settings, const PatchShape& shape);

}  // namespace kvcal
