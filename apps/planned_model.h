// The model that a plan is for.
#pragma once

#include <string>

#include "base/json.h"
#include "model/model_spec.h"

namespace kvcal {

/// As its class reads the config, or guessed from usual keys where the class is not known.
struct PlannedModel {
  ModelSpec spec;
  std::string guess;  // that it is one, and from what; "" where it is none
};

/// With the cache of the MTP layer, which servers keep where they draft tokens with it, or without. Throws Error where
/// nothing can be guessed, and for an MTP layer that is not read.
PlannedModel planned_model(const Json& config, bool mtp);

}  // namespace kvcal
