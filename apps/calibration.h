// The measuring part of `calibrate`: from an opened model and tokenized prompts to statistics.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "opened_model.h"
#include "prefill/memory_plan.h"
#include "prefill/sanity.h"
#include "prefill/sequence_plan.h"
#include "resume.h"
#include "stats/attention_sampler.h"
#include "stats/run_record.h"

namespace kvcal {

struct CalibrationOptions {
  SequenceOptions sequences;
  Precision precision = Precision::BF16;
  std::string device = "auto";
  int threads = 0;           // 0 = all processors
  int64_t chunk_tokens = 0;  // 0 = by the plan
  uint64_t memory = 0;       // bytes; 0 = what is available
  double until_stable = -1;  // percent: draws prompts until new ones move no absmax by more; below 0 = off
  SampleOptions sample;      // how sampled rows are chosen and evaluated
  std::string prompts_sha256;
  std::string tokenizer_sha256;  // "" without one
  std::string activation_quant;  // what WeightBinder::emulate_activations() said; "" = activations are not rounded
  std::filesystem::path resume;  // folder that keeps the state after each layer, and goes when the caller removes it
  std::function<void(const RunStep&)> on_step;  // after every batch; may throw to stop the run
  bool quiet = false, verbose = false;
};

struct CalibrationResult {
  Statistics statistics;
  int64_t n_tokens = 0;      // measured, all passes
  int64_t n_tokens_run = 0;  // with warm-up and sanity sequences
  int n_passes = 0;
  double seconds = 0;                    // of the sweeps
  std::optional<SequencePlan> drawn;     // with until_stable: what was run instead of the plan
  std::unique_ptr<ResumeFolder> resume;  // with CalibrationOptions::resume: to remove once the results are safe
};

/// The sequences and the memory of a run. Throws Error when it cannot fit, and when a tensor that it needs is missing
/// or has another shape.
struct CalibrationPlan {
  SequencePlan sequences;
  MemoryPlan memory;
  std::unique_ptr<Ops> op;  // the device that will run
};
CalibrationPlan plan_calibration(OpenedModel& model, const std::vector<PromptTokens>& prompts,
                                 const CalibrationOptions& options);

/// The same on a device that is already open; options.device is ignored.
CalibrationPlan plan_calibration(OpenedModel& model, const std::vector<PromptTokens>& prompts,
                                 const CalibrationOptions& options, std::unique_ptr<Ops> device);

/// Runs the plan or, with until_stable, the plan of as many prompts, in the order of their ids, as it takes: an eighth
/// of them alone, then twice as many each time, until the new ones raise no absmax by more and no absmax depends on one
/// prompt; then the other passes over these. The result is that of a run over these prompts. Warnings and progress go
/// to standard error.
CalibrationResult calibrate(OpenedModel& model, const CalibrationPlan& plan, const CalibrationOptions& options);

/// The plan in readable lines, for standard error.
std::string plan_text(const CalibrationPlan& plan, const ModelSpec& spec);

}  // namespace kvcal
