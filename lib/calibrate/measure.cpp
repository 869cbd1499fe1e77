#include "calibrate/measure.h"

#include <chrono>
#include <cstdio>
#include <utility>

#include "calibrate/run_description.h"
#include "calibrate/sweep.h"
#include "calibrate/until_stable.h"

namespace kvcal {
namespace {

void warn_if_suspicious(const SanityCheck& sanity, NoticeListener& listener) {
  if (!sanity.suspicious()) return;
  char text[200];
  std::snprintf(text, sizeof text,
                "the model predicts these prompts no better than chance (%.2f nats per token; chance is %.2f): the "
                "checkpoint or tokenizer is probably damaged or loaded wrongly",
                sanity.mean_nll(), sanity.uniform_nll());
  listener.hear(Notice::Warning, text);
}

std::unique_ptr<ResumeFolder> open_resume(const OpenedModel& model, const Sweeper& sweeper,
                                          const SequencePlan& sequences, const CalibrationOptions& options,
                                          NoticeListener& listener) {
  if (options.resume.empty()) return nullptr;
  const RunRecord record = sweeper.record(sequences, options.sequences.passes, SanityCheck(0, sequences.prompts));
  auto folder = std::make_unique<ResumeFolder>(options.resume, identity_of(record, options), listener);
  folder->announce(model.spec().layers.size());
  return folder;
}

}  // namespace

Measurement measure(OpenedModel& model, const CalibrationPlan& plan, const CalibrationOptions& options,
                    CalibrationListener& listener) {
  const auto start = std::chrono::steady_clock::now();
  const SequencePlan& sequences = plan.sequences;
  Sweeper sweeper(model, plan, options, listener);
  SanityCheck sanity(model.spec().vocab, sequences.prompts);
  Measurement m;
  m.resume = open_resume(model, sweeper, sequences, options, listener);
  if (options.until_stable >= 0) {
    DrawnRun run = run_until_stable(sweeper, sequences.prompts, options, sanity, listener);
    m.statistics = std::move(run.statistics);
    m.sequences = std::move(run.sequences);
  } else {
    m.statistics = sweeper.run(sequences, {1, options.sequences.passes, 0}, sanity, m.resume.get());
    m.sequences = sequences;
  }
  m.n_tokens = m.sequences.n_tokens();
  warn_if_suspicious(sanity, listener);
  for (const std::string& note : plan.devices.notes()) listener.hear(Notice::Detail, note);
  m.n_tokens_run = sweeper.tokens_run();
  m.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return m;
}

}  // namespace kvcal
