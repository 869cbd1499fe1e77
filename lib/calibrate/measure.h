// The measuring part of a calibration: runs a plan, and counts what the caches would hold.
#pragma once

#include <cstdint>
#include <memory>

#include "calibrate/listener.h"
#include "calibrate/opened_model.h"
#include "calibrate/plan.h"
#include "calibrate/resume.h"

namespace kvcal {

struct Measurement {
  SequencePlan sequences;  // what was run: the plan's, or with until_stable those of the prompts that were drawn
  Statistics statistics{};
  int64_t n_tokens = 0;                    // measured, all passes
  int64_t n_tokens_run = 0;                // with warm-up and sanity sequences
  int layers_kept = 0;                     // CalibrationOptions::kept: as they were, and not run
  double seconds = 0;                      // of the sweeps
  std::unique_ptr<ResumeFolder> resume{};  // with CalibrationOptions::resume: to remove once the results are safe
};

/// Runs the plan or, with until_stable, the plan of as many prompts as it takes. The result is that of a run over these
/// prompts, whatever the threads and batches. `listener` must outlive the result.
Measurement measure(OpenedModel& model, const CalibrationPlan& plan, const CalibrationOptions& options,
                    CalibrationListener& listener);

}  // namespace kvcal
