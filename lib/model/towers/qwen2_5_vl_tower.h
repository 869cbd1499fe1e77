// The vision tower of Qwen2.5-VL.
#pragma once

#include "model/vision_tower.h"

namespace kvcal {

std::unique_ptr<VisionTower> read_qwen2_5_vl_tower(const Json& config, const ModelSpec& spec);

}  // namespace kvcal
