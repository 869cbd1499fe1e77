// Llama4ImageProcessor of the reference framework: a picture is fitted into the upper left corner of a canvas of whole
// square tiles, which is cut into them; behind several lies the whole picture, made a square.
#pragma once

#include "vision/processor_settings.h"

namespace kvcal {

PatchRules read_llama4_processor(const Json& settings, const PatchShape& shape);

}  // namespace kvcal
