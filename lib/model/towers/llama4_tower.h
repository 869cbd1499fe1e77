// The vision tower of Llama 4: tiles of a picture, each of which it sees alone.
#pragma once

#include "model/vision_tower.h"

namespace kvcal {

std::unique_ptr<VisionTower> read_llama4_tower(const Json& config, const ModelSpec& spec);

}  // namespace kvcal
