#include "console.h"

#include "base/counted.h"
#include "base/number_text.h"
#include "plan_text.h"
#include "terminal.h"

namespace kvcal {

void Console::hear(Notice notice, const std::string& text) {
  if (notice == Notice::Detail ? !verbose_ : notice != Notice::Warning && quiet_) return;
  if (progress_) progress_->clear();
  const bool warns = notice == Notice::Warning || notice == Notice::Advice;
  say(notice == Notice::Detail ? "" : "kvcal: ", warns ? "warning: " : "", text);
}

void Console::planned(const CalibrationPlan& plan, const ModelSpec& spec) {
  if (!quiet_) say_lines(plan_text(plan.sequences, plan.memory, spec));
}

void Console::sweep_begins(const SweepOutline& outline) {
  if (verbose_)
    for (const SweepGroup& group : outline.groups)
      say(group.name, ": ", counted(group.n_sequences, "sequence"), ", ", counted(group.n_tokens, "token"));
  progress_.emplace(progress_form_, outline, ++n_sweeps_);
}

void Console::step(const RunStep& step, int64_t work_done) { progress_->update(step, work_done); }

void Console::sweep_ends() {
  progress_->finish();
  progress_.reset();
}

void Console::answered(int64_t n, int64_t of) {
  if (!progress_) progress_.emplace(progress_form_, SweepOutline{{}, of, 0}, ++n_sweeps_, "answer");
  progress_->update({static_cast<int>(n) - 1, static_cast<int>(of), 0}, n);
  if (n == of) sweep_ends();
}

}  // namespace kvcal
