// Whether kvcal fold is a way out where a server loads no scales.
#pragma once

#include "model/model_spec.h"

namespace kvcal {

/// Whether the weights around some cache can take powers of two, as far as the architecture tells: how they are stored
/// may still forbid it.
bool may_be_folded(const ModelSpec& spec);

}  // namespace kvcal
