#include "calibrate/measure.h"

#include <chrono>
#include <cstdio>
#include <utility>

#include "calibrate/kept_layers.h"
#include "calibrate/run_description.h"
#include "calibrate/sweep.h"
#include "calibrate/until_stable.h"
#include "prefill/footprint.h"

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

Json identity_of_run(const OpenedModel& model, const Sweeper& sweeper, const SequencePlan& sequences,
                     const CalibrationOptions& options) {
  const RunRecord record = sweeper.record(sequences, options.sequences.passes, SanityCheck(0, sequences.prompts));
  return identity_of(record, model.checkpoint, sequences, options);
}

std::unique_ptr<ResumeFolder> open_resume(const OpenedModel& model, const Sweeper& sweeper,
                                          const SequencePlan& sequences, const CalibrationOptions& options,
                                          NoticeListener& listener) {
  if (options.resume.empty()) return nullptr;
  auto folder =
      std::make_unique<ResumeFolder>(options.resume, identity_of_run(model, sweeper, sequences, options), listener);
  folder->announce(model.spec().layers.size());
  return folder;
}

KeptLayers* begin_kept(const OpenedModel& model, const Sweeper& sweeper, const CalibrationPlan& plan,
                       const CalibrationOptions& options) {
  const SequencePlan& s = plan.sequences;
  const int64_t rows = tokens_of(s.warmup) + tokens_of(s.measured) + tokens_of(s.sanity);
  options.kept->begin(model, identity_of_run(model, sweeper, s, options), plan.memory,
                      static_cast<uint64_t>(rows * model.spec().residual_width()) * element_bytes(options.precision));
  return options.kept;
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
  SweepStore* store = m.resume.get();
  if (options.kept) {
    store = begin_kept(model, sweeper, plan, options);
    m.layers_kept = options.kept->layers_done();
  }
  if (options.until_stable >= 0) {
    DrawnRun run = run_until_stable(sweeper, sequences.prompts, options, sanity, listener);
    m.statistics = std::move(run.statistics);
    m.sequences = std::move(run.sequences);
  } else {
    m.statistics = sweeper.run(sequences, {1, options.sequences.passes, 0}, sanity, store);
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
