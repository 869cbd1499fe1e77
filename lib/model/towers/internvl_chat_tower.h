// The vision tower of InternVL, as its makers name it.
#pragma once

#include "model/vision_tower.h"

namespace kvcal {

std::unique_ptr<VisionTower> read_internvl_chat_tower(const Json& config, const ModelSpec& spec);

}  // namespace kvcal
