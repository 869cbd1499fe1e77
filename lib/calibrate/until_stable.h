// --until-stable: as many prompts, in the order of their ids, as it takes until new ones raise no absmax.
#pragma once

#include "calibrate/sweep.h"

namespace kvcal {

struct DrawnRun {
  SequencePlan sequences;  // of the prompts that were drawn, all passes
  Statistics statistics;   // those of a run over these sequences
};

/// An eighth of the prompts alone, then twice as many each time, until the new ones raise no absmax by more than
/// options.until_stable percent and no absmax depends on one prompt; then the other passes over these. `prompts`:
/// sorted by id. The listener hears whether they settled.
DrawnRun run_until_stable(Sweeper& sweeper, const std::vector<PromptTokens>& prompts, const CalibrationOptions& options,
                          SanityCheck& sanity, NoticeListener& listener);

}  // namespace kvcal
