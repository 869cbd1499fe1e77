// LlavaNextImageProcessor and LlavaOnevisionImageProcessor of the reference framework: a picture is fitted into one of
// several canvases, which is cut into square tiles; in front of them lies the whole picture, made a square.
#pragma once

#include "vision/processor_settings.h"

namespace kvcal {

PatchRules read_llava_next_processor(const Json& settings, const PatchShape& shape);
PatchRules read_llava_onevision_processor(const Json& settings, const PatchShape& shape);

}  // namespace kvcal
