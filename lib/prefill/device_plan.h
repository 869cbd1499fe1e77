// The memory plan of a run on a device with its own memory.
#pragma once

#include "prefill/memory_plan.h"

namespace kvcal {

/// plan_memory() for options.device.own. Throws Error with the numbers when nothing fits.
MemoryPlan plan_device_memory(const ModelSpec& spec, const SequencePlan& sequences, const MemoryOptions& options);

}  // namespace kvcal
