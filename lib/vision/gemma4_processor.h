// Gemma4ImageProcessor of the reference framework: a picture keeps its shape, as far as whole squares of patches allow,
// and gets as many of them as there are tokens for it.
#pragma once

#include "vision/processor_settings.h"

namespace kvcal {

PatchRules read_gemma4_processor(const Json& settings, const PatchShape& shape);

}  // namespace kvcal
