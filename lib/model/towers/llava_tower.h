// The vision towers of LLaVA, CLIP or Pixtral, each of whose patches is projected.
#pragma once

#include "model/vision_tower.h"

namespace kvcal {

std::unique_ptr<VisionTower> read_llava_tower(const Json& config, const ModelSpec& spec);

}  // namespace kvcal
