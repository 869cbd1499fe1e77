// CLIPImageProcessor of the reference framework: the shorter side becomes the tower's, and the middle square is cut
// out.
#pragma once

#include "vision/processor_settings.h"

namespace kvcal {

PatchRules read_clip_processor(const Json& settings, const PatchShape& shape);

}  // namespace kvcal
