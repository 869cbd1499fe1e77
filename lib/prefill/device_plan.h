// The memory plan of a run on a device with its own memory.
#pragma once

#include "prefill/memory_plan.h"

namespace kvcal {

/// How the checkpoint has the weights: as values, or some of them to be decoded on the device.
enum class WeightForm : uint8_t { Plain, Encoded };

/// plan_memory() for options.device.own. Throws Error with the numbers when nothing fits.
MemoryPlan plan_device_memory(const ModelSpec& spec, const SequencePlan& sequences, const MemoryOptions& options,
                              WeightForm weights = WeightForm::Plain);

}  // namespace kvcal
