// The main line: from a checkpoint folder and prompts to statistics, scales, and the artifact that holds them. Programs
// are flags, a listener and files around it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "artifact/artifact.h"
#include "calibrate/listener.h"
#include "calibrate/options.h"
#include "calibrate/plan.h"
#include "calibrate/resume.h"

namespace kvcal {

struct CalibrationResult {
  SequencePlan sequences;  // what was run: with until_stable of the prompts that were drawn
  MemoryPlan memory;       // bytes
  Statistics statistics;
  std::optional<Artifact> artifact;      // with Extent::Scales
  int64_t n_tokens = 0;                  // measured, all passes
  int64_t n_tokens_run = 0;              // with warm-up and sanity sequences
  double seconds = 0;                    // of the sweeps
  std::string activation_quant;          // how activations were rounded; "" = they were not
  std::unique_ptr<ResumeFolder> resume;  // if asked for: to remove once the results are safe
};

/// Writes nothing but options.resume. With Extent::Plan only `sequences` and `memory` are filled in. Equal inputs give
/// equal results whatever the threads, batches, order of prompts and interruptions. `listener` must outlive the result.
/// Throws Error for what cannot be read, does not fit, is not measured once for every token, or has no honest scale;
/// and whatever the listener throws.
CalibrationResult calibrate(const CalibrationInputs& inputs, CalibrationOptions options, CalibrationListener& listener);

}  // namespace kvcal
