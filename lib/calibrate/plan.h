// What a run will do, decided before it begins: its sequences, its memory, its devices.
#pragma once

#include <string>
#include <vector>

#include "calibrate/devices.h"
#include "calibrate/opened_model.h"
#include "calibrate/options.h"
#include "prefill/memory_plan.h"
#include "prefill/sequence_plan.h"

namespace kvcal {

/// Which inputs, beside the checkpoint, the numbers come from. Hashes are 64 hexadecimal digits.
struct RunSources {
  std::string prompts_sha256;
  std::string tokenizer_sha256;  // "" without one
  std::string activation_quant;  // what WeightBinder::emulate_activations() said; "" = activations are not rounded
};

struct CalibrationPlan {
  RunSources sources;
  SequencePlan sequences;
  MemoryPlan memory;  // bytes; with several devices of each, and `host` of all
  Devices devices;    // that will run
};

/// Throws Error when a tensor that the run needs is missing or has another shape, when the run cannot fit, and for what
/// several devices cannot do.
CalibrationPlan plan_calibration(OpenedModel& model, std::vector<PromptTokens> prompts, RunSources sources,
                                 const CalibrationOptions& options, const OpenDevices& open_devices);

}  // namespace kvcal
