// Sweeps over the layers of a model for the sequences of a plan, or a part of them, with an Observer at the tap: on one
// device, or on several that share them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/thread_pool.h"
#include "calibrate/listener.h"
#include "calibrate/opened_model.h"
#include "calibrate/plan.h"
#include "calibrate/sweep_store.h"
#include "calibrate/workers.h"
#include "prefill/sanity.h"
#include "stats/run_record.h"

namespace kvcal {

/// The measured sequences of a plan that a sweep runs. Warm-up and sanity belong to the first sweep.
struct SweepPart {
  int first_pass = 1, last_pass = 1;
  int64_t first_prompt = 0;  // of sequences of one prompt
  bool is_first() const { return first_pass == 1 && first_prompt == 0; }
  bool has(const Sequence& s) const {
    return s.pass >= first_pass && s.pass <= last_pass && s.pieces.front().prompt >= first_prompt;
  }
};

class Sweeper {
 public:
  /// Refers to all of them.
  Sweeper(OpenedModel& model, const CalibrationPlan& plan, const CalibrationOptions& options,
          CalibrationListener& listener);

  /// Of the plan's own sequences, or of others over the first of its prompts. With a store it goes on where that says,
  /// and leaves ends of layers there; then there is one device.
  Statistics run(const SequencePlan& sequences, const SweepPart& part, SanityCheck& sanity,
                 SweepStore* store = nullptr);

  RunRecord record(const SequencePlan& sequences, int n_passes, const SanityCheck& sanity) const;

  int64_t tokens_run() const { return tokens_run_; }  // so far, with warm-up and sanity sequences

 private:
  /// What one device runs.
  struct Share {
    std::vector<Sequence> warmup, measured, sanity;
  };
  std::vector<Share> shares_of(const SequencePlan& sequences, const SweepPart& part) const;
  struct Swept;  // what the devices have in common
  Statistics run_share(size_t device, const Share& share, const Swept& swept, const HearStep& hear);
  Statistics run_shares(const std::vector<Share>& shares, const Swept& swept, const HearStep& hear);

  OpenedModel& model_;
  // The models of the other devices: a checkpoint gives up the memory of a layer that one run has loaded.
  std::vector<std::unique_ptr<OpenedModel>> others_;
  const CalibrationPlan& plan_;
  const CalibrationOptions& options_;
  CalibrationListener& listener_;
  ThreadPool pool_;
  int64_t tokens_run_ = 0;
};

}  // namespace kvcal
