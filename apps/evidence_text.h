// Whether the prompts were enough for the ranges that were measured, in lines for people.
#pragma once

#include <string>

#include "artifact/artifact.h"
#include "base/lines.h"

namespace kvcal {

/// Sites whose range depends on one prompt or tag, how many prompts exceed the range of the others, and keys that a
/// policy does not provide for at longer contexts; "" where there is nothing to say.
Lines evidence_text(const Artifact& artifact);

}  // namespace kvcal
