// What `calibrate` and `generate` hear from lib/calibrate, on standard error.
#pragma once

#include <optional>

#include "calibrate/listener.h"
#include "progress.h"

namespace kvcal {

/// Warnings always; advice, notes, plan and progress unless quiet; details if verbose.
class Console : public CalibrationListener {
 public:
  explicit Console(bool quiet, bool verbose = false) : quiet_(quiet), verbose_(verbose) {}

  void hear(Notice notice, const std::string& text) override;
  void planned(const CalibrationPlan& plan, const ModelSpec& spec) override;
  void sweep_begins(const SweepOutline& outline) override;
  void step(const RunStep& step, int64_t work_done) override;
  void sweep_ends() override { progress_.reset(); }
  void answered(int64_t n, int64_t of) override;

 private:
  const bool quiet_, verbose_;
  std::optional<Progress> progress_;
};

}  // namespace kvcal
