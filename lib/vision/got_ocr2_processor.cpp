#include "vision/got_ocr2_processor.h"

#include "vision/internvl_tiles.h"

namespace kvcal {

// "crop_to_patches" of the file, which is false in published ones, is not asked for: InternVLProcessor says true.
PatchRules read_got_ocr2_processor(const Json& settings, const PatchShape& shape) {
  check_steps(settings, shape, {3, "bicubic"});
  const TileLimits limits = {get_int_or(settings, "min_patches", 1), get_int_or(settings, "max_patches", 12), true};
  check_limits(limits, {"min_patches", "max_patches"});
  const Json* size = find_member(settings, "size");
  for (const char* edge : {"height", "width"})
    expect_of_tower(size ? *size : Json::object(), edge, 384, shape.side * shape.size, "size.");
  PatchRules rules = rules_of_tiles(limits, shape, kBicubic);
  read_colors(settings, {0.48145466, 0.4578275, 0.40821073}, {0.26862954, 0.26130258, 0.27577711}, rules);
  return rules;
}

}  // namespace kvcal
