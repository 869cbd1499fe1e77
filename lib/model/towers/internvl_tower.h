// The vision tower of InternVL, as the reference framework names it.
#pragma once

#include "model/vision_tower.h"

namespace kvcal {

std::unique_ptr<VisionTower> read_internvl_tower(const Json& config, const ModelSpec& spec);

}  // namespace kvcal
