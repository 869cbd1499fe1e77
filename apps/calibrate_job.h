// What all flows of 'kvcal calibrate' share: what they read, where they write, and what they say at the end.
#pragma once

#include <string>

#include "calibrate/calibrate.h"
#include "calibrate_flags.h"
#include "console.h"
#include "if_changed.h"
#include "next_step.h"
#include "verbs.h"

namespace kvcal {

/// Before hours of work. Throws Error where an output exists, cannot be written, or is another one or an input.
void check_outputs(const CalibrateFlags& flags);

/// Saves the statistics as soon as there are some: computing scales from them may fail.
class CalibrateConsole final : public Console {
 public:
  explicit CalibrateConsole(const CalibrateFlags& flags);

  void planned(const CalibrationPlan& plan, const ModelSpec& spec) override;
  void measured(const Statistics& statistics) override;

  const std::string& statistics_sha256() const { return statistics_sha256_; }  // of the file; "" without one

 private:
  const CalibrateFlags& flags_;
  std::string statistics_sha256_;
};

CalibrationOptions resolved(const CalibrateFlags& flags);
CalibrationInputs inputs_of(const CalibrateFlags& flags, const CalibrationOptions& options);

/// Of several GPUs the one of the process that is this many-th on its machine.
void take_device(CalibrateFlags& flags, int64_t on_host);

/// What the user may do with the file.
NextStepInputs next_of(const CalibrateFlags& flags);

/// Writes and says whatever is to be.
void finish(const CalibrateFlags& flags, const CalibrationResult& result, const CalibrateConsole& console);

/// --evaluate: on the same prompts, with the scales that were just written.
Exit evaluate_written(const CalibrateFlags& flags, const CalibrationOptions& options);

/// --mpi: this process is a rank of the job.
Exit calibrate_as_rank(CalibrateFlags& flags);

/// --check: whether --if-changed would leave the file as it is.
Exit check_up_to_date(const CalibrateFlags& flags, CalibrationOptions options, CalibrateConsole& console);

/// --if-changed, where nothing changed: the file and its statistics stay as they are.
Exit keep_earlier(const CalibrateFlags& flags, const EarlierResult& earlier);

}  // namespace kvcal
