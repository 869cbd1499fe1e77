// GotOcr2ImageProcessor of the reference framework, as InternVLProcessor calls it: pictures are cut into square tiles.
#pragma once

#include "vision/processor_settings.h"

namespace kvcal {

/// The tiles of a picture lie below each other in its grid; behind several of them comes the whole picture as one more.
PatchRules read_got_ocr2_processor(const Json& settings, const PatchShape& shape);

}  // namespace kvcal
