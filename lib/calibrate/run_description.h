// How a run describes itself: in the statistics that it gives, and in the files from which it can be resumed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/opened_model.h"
#include "calibrate/options.h"
#include "calibrate/plan.h"
#include "prefill/sanity.h"
#include "prefill/sequence_plan.h"
#include "stats/run_record.h"

namespace kvcal {

/// All but the sequences. Refers to its parts.
struct DescribedRun {
  const OpenedModel& model;
  const RunSources& sources;
  const CalibrationOptions& options;
  const std::string& isa;  // Ops::isa() of the device that runs
};

/// n_passes: measured ones. Throws Error for a hash that is none.
RunRecord record_of(const DescribedRun& run, const SequencePlan& plan, int n_passes, const SanityCheck& sanity);

/// All that the numbers of a run depend on, by name. Threads and chunk sizes are not among it.
Json identity_of(const RunRecord& record, const Checkpoint& checkpoint, const SequencePlan& plan,
                 const CalibrationOptions& options);

/// Of the prompts of a plan, in its order.
std::vector<std::string> ids_of(const SequencePlan& plan);

/// Kinds of the tokens of each prompt (base/token_kind.h); empty where those of some prompt are not known.
std::vector<std::vector<uint8_t>> kinds_of(const SequencePlan& plan);

}  // namespace kvcal
