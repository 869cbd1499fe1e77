#include "vision/internvl_chat_processor.h"

#include "vision/internvl_tiles.h"

namespace kvcal {

PatchRules read_internvl_chat_processor(const Json&, const PatchShape& shape) {
  check_limits(shape.tiles, {"min_dynamic_patch", "max_dynamic_patch"});
  PatchRules rules = rules_of_tiles(shape.tiles, shape, kPillowBicubic);
  constexpr float kMean[] = {0.485f, 0.456f, 0.406f}, kDeviation[] = {0.229f, 0.224f, 0.225f};
  for (size_t c = 0; c < 3; ++c)
    for (size_t byte = 0; byte < 256; ++byte)
      rules.colors[c][byte] = (static_cast<float>(byte) / 255 - kMean[c]) / kDeviation[c];
  return rules;
}

}  // namespace kvcal
