// The vision tower of Gemma 3: SigLIP, whose rows are pooled, normed and projected.
#pragma once

#include "model/vision_tower.h"

namespace kvcal {

std::unique_ptr<VisionTower> read_gemma3_tower(const Json& config, const ModelSpec& spec);

}  // namespace kvcal
