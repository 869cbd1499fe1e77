// PixtralImageProcessor of the reference framework, as PixtralProcessor calls it: with the tower's own squares,
// whatever patch_size its file has. A picture keeps its shape; only one with a side beyond longest_edge shrinks.
#pragma once

#include "vision/processor_settings.h"

namespace kvcal {

PatchRules read_pixtral_processor(const Json& settings, const PatchShape& shape);

}  // namespace kvcal
