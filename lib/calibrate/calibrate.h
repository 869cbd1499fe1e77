// The main line: from a checkpoint folder and prompts to statistics, scales, and the artifact that holds them. Programs
// are flags, a listener and files around it.
#pragma once

#include <optional>
#include <string>

#include "artifact/artifact.h"
#include "calibrate/listener.h"
#include "calibrate/measure.h"
#include "calibrate/options.h"

namespace kvcal {

struct CalibrationResult : Measurement {
  MemoryPlan memory;                   // bytes
  std::string activation_quant;        // how activations were rounded; "" = they were not
  std::optional<Artifact> artifact{};  // with Extent::Scales
  bool earlier_stands = false;         // CalibrationOptions::earlier: nothing was run, and the rest is not filled in
  std::string changes{};               // why it does not stand: "the model's weights, --passes"
};

/// Writes nothing but options.resume. With Extent::Plan only `sequences` and `memory` are filled in, with
/// Extent::Comparison only what becomes of CalibrationOptions::earlier, which must be there. Equal inputs give
/// equal results whatever the threads, batches, order of prompts and interruptions. `listener` must outlive the result.
/// Throws Error for what cannot be read, does not fit, is not measured once for every token, has no honest scale,
/// or was changed meanwhile (input_files.h); and whatever the listener throws.
CalibrationResult calibrate(const CalibrationInputs& inputs, CalibrationOptions options, CalibrationListener& listener);

}  // namespace kvcal
