// The vision tower of Mistral 3: Pixtral, whose patches are normed, merged by squares and projected.
#pragma once

#include "model/vision_tower.h"

namespace kvcal {

std::unique_ptr<VisionTower> read_mistral3_tower(const Json& config, const ModelSpec& spec);

}  // namespace kvcal
