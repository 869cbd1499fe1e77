// The vision tower of Gemma 4, whose rows are pooled, normed and projected.
#pragma once

#include "model/vision_tower.h"

namespace kvcal {

std::unique_ptr<VisionTower> read_gemma4_tower(const Json& config, const ModelSpec& spec);

}  // namespace kvcal
