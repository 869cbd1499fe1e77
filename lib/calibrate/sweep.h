// Sweeps over the layers of a model for the sequences of a plan, or a part of them, with an Observer at the tap.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "calibrate/listener.h"
#include "calibrate/opened_model.h"
#include "calibrate/plan.h"
#include "calibrate/resume.h"
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

  /// Of the plan's own sequences, or of others over the first of its prompts. With `resume` it goes on where that
  /// folder says, and leaves every layer's end there.
  Statistics run(const SequencePlan& sequences, const SweepPart& part, SanityCheck& sanity,
                 ResumeFolder* resume = nullptr);

  RunRecord record(const SequencePlan& sequences, int n_passes, const SanityCheck& sanity) const;

  int64_t tokens_run() const { return tokens_run_; }  // so far, with warm-up and sanity sequences

 private:
  OpenedModel& model_;
  const CalibrationPlan& plan_;
  const CalibrationOptions& options_;
  CalibrationListener& listener_;
  ThreadPool pool_;
  const std::string isa_;
  int64_t tokens_run_ = 0;
};

}  // namespace kvcal
