// The vision towers of LLaVA-NeXT and LLaVA-OneVision.
#pragma once

#include "model/vision_tower.h"

namespace kvcal {

std::unique_ptr<VisionTower> read_llava_next_tower(const Json& config, const ModelSpec& spec);
std::unique_ptr<VisionTower> read_llava_onevision_tower(const Json& config, const ModelSpec& spec);

}  // namespace kvcal
