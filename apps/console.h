// What `calibrate` and `generate` hear from lib/calibrate, on standard error.
#pragma once

#include <optional>

#include "calibrate/listener.h"
#include "progress.h"

namespace kvcal {

/// Warnings always; advice, notes, plan and the status line unless quiet; details if verbose. JSON lines where they are
/// asked for.
class Console : public CalibrationListener {
 public:
  explicit Console(bool quiet, ProgressForm progress = ProgressForm::Line, bool verbose = false)
      : quiet_(quiet),
        verbose_(verbose),
        progress_form_(quiet && progress == ProgressForm::Line ? ProgressForm::None : progress) {}

  void hear(Notice notice, const std::string& text) override;
  void planned(const CalibrationPlan& plan, const ModelSpec& spec) override;
  void sweep_begins(const SweepOutline& outline) override;
  void step(const RunStep& step, int64_t work_done) override;
  void sweep_ends() override;
  void answered(int64_t n, int64_t of) override;

 private:
  const bool quiet_, verbose_;
  const ProgressForm progress_form_;
  int n_sweeps_ = 0;
  std::optional<Progress> progress_;
};

}  // namespace kvcal
