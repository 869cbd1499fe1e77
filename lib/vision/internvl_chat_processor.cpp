#include "vision/internvl_chat_processor.h"

#include "vision/internvl_tiles.h"

namespace kvcal {

PatchRules read_internvl_chat_processor(const Json&, const PatchShape& shape) {
  check_limits(shape.tiles, {"min_dynamic_patch", "max_dynamic_patch"});
  PatchRules rules = rules_of_tiles(shape.tiles, shape, kPillowBicubic);
  rules.mean = {0.485f, 0.456f, 0.406f};
  rules.deviation = {0.229f, 0.224f, 0.225f};
  rules.unit = 255;
  return rules;
}

}  // namespace kvcal
