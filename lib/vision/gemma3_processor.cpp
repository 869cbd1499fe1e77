#include "vision/gemma3_processor.h"

namespace kvcal {

PatchRules read_gemma3_processor(const Json& settings, const PatchShape& shape) {
  check_steps(settings, shape, {2, "bilinear"});
  if (get_bool_or(settings, "do_pan_and_scan", false))
    fail("do_pan_and_scan is true: pictures that are cut into crops are not read");
  const Json* size = find_member(settings, "size");
  for (const char* edge : {"height", "width"})
    expect_of_tower(size ? *size : Json::object(), edge, 224, shape.side * shape.size, "size.");
  const PatchGrid square{shape.side, shape.side};
  PatchRules rules{[square](const ImageSize&) { return square; }, Json::array(), kBilinear};
  read_colors(settings, {0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}, rules);
  return rules;
}

}  // namespace kvcal
