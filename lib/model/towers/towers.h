// Which towers are run, and the one of a model.
#pragma once

#include <memory>
#include <string_view>

#include "base/json.h"
#include "model/model_spec.h"
#include "model/vision_tower.h"

namespace kvcal {

/// Whether the towers of this class are run.
bool runs_tower(std::string_view architecture);

/// The tower of a model with this config. Throws Error where none is run for its class, it has no placeholder token, or
/// something in its config is not known.
std::unique_ptr<VisionTower> read_tower(const Json& config, const ModelSpec& spec);

}  // namespace kvcal
