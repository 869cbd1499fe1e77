// The processing of pictures that comes with InternVLChatModel as code: config.json alone says how.
#pragma once

#include "vision/processor_settings.h"

namespace kvcal {

/// The same tiles as read_got_ocr2_processor's, by Pillow's arithmetic, in the colors of ImageNet.
PatchRules read_internvl_chat_processor(const Json& settings, const PatchShape& shape);

}  // namespace kvcal
