// The vision tower of Idefics 3 and SmolVLM.
#pragma once

#include <memory>
#include <vector>

#include "model/vision_tower.h"

namespace kvcal {

/// Where on an edge of `side` learned positions each of its `side` patches lies: by its fraction of the edge, in F32.
std::vector<int32_t> positions_by_fraction(int64_t side);

std::unique_ptr<VisionTower> read_idefics3_tower(const Json& config, const ModelSpec& model);
std::unique_ptr<VisionTower> read_smolvlm_tower(const Json& config, const ModelSpec& model);

}  // namespace kvcal
