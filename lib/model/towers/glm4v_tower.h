// The vision tower of GLM-4.1V and GLM-4.5V.
#pragma once

#include "model/vision_tower.h"

namespace kvcal {

std::unique_ptr<VisionTower> read_glm4v_tower(const Json& config, const ModelSpec& spec);

}  // namespace kvcal
