// What a calibration tells while it works: words, and how far it is. Who listens may also stop it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/notices.h"
#include "prefill/runner.h"
#include "stats/run_record.h"

namespace kvcal {

struct CalibrationPlan;

/// Sequences that a sweep runs together.
struct SweepGroup {
  std::string name;  // "warm-up", "pass 1", "sanity"
  int64_t n_sequences = 0, n_tokens = 0;
};

/// One sweep over the layers. Work is counted in tokens times layers.
struct SweepOutline {
  std::vector<SweepGroup> groups;
  int64_t work = 0;       // of the whole sweep
  int64_t work_done = 0;  // where a resumed run begins
  int64_t n_tokens() const {
    int64_t n = 0;
    for (const SweepGroup& group : groups) n += group.n_tokens;
    return n;
  }
};

/// Hears everything of one run, in the order of the work and from the thread that called. Any call may throw, which
/// cancels the run: the exception leaves calibrate() as it is, and nothing has been written but the resume folder of a
/// run that was asked for one.
class CalibrationListener : public NoticeListener {
 public:
  /// Everything is opened and checked, nothing has run.
  virtual void planned(const CalibrationPlan&, const ModelSpec&) {}
  virtual void sweep_begins(const SweepOutline&) {}
  /// After every batch; `work_done` as in SweepOutline.
  virtual void step(const RunStep&, int64_t /*work_done*/) {}
  virtual void sweep_ends() {}
  /// Before scales are computed, which can fail where there is no honest one: to save the statistics.
  virtual void measured(const Statistics&) {}
  /// Of `evaluate`: after so many of the answers that it makes.
  virtual void answered(int64_t /*n*/, int64_t /*of*/) {}
};

}  // namespace kvcal
