// The vision tower of Qwen3-VL, its MoE, Qwen3.5 and its MoE (without deepstack).
#pragma once

#include "model/vision_tower.h"

namespace kvcal {

std::unique_ptr<VisionTower> read_qwen3_vl_tower(const Json& config, const ModelSpec& spec);

}  // namespace kvcal
