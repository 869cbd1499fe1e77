// How to serve the same model with a cache that is not quantized: the comparison that tells whether the cache is to
// blame.
#pragma once

#include <string>

#include "deployment/cache_type.h"

namespace kvcal {

struct ControlRequest {
  CacheRequest cache;
  CacheType in_effect;
  Trait scales_felt = Trait::Unknown;  // whether the checkpoint's scales reach a cache that is not quantized
  std::string model_type;              // of the weights: "bfloat16"; "": not known
};

/// The options, or what else to change; of a cache that is not quantized already, what to look at in its place.
std::string control_text(const ControlRequest& request);

}  // namespace kvcal
