#include "calibration.h"

#include <chrono>
#include <cmath>
#include <iostream>

#include "artifact/provenance.h"
#include "base/thread_pool.h"
#include "build_info.h"
#include "checkpoint/config_file.h"
#include "checkpoint/fingerprint.h"
#include "device.h"
#include "prefill/runner.h"
#include "prefill/weight_check.h"
#include "progress.h"
#include "stats/attention_sampler.h"
#include "stats/merge.h"
#include "stats/observer.h"
#include "stats/queries.h"

namespace kvcal {
namespace {

constexpr int kMostPasses = 16;  // where --until-stable gives up

std::vector<std::string> ids_of(const SequencePlan& plan) {
  std::vector<std::string> ids;
  for (const PromptTokens& p : plan.prompts) ids.push_back(p.id);
  return ids;
}

RunRecord record_of(const OpenedModel& model, const SequencePlan& plan, const CalibrationOptions& options,
                    const std::string& isa, int n_passes, const SanityCheck& sanity) {
  const ModelWeights& w = model.weights;
  ModelFacts facts;
  facts.tensor_prefix = w.prefix.model;
  facts.config_sha256 = config_sha256(model.checkpoint.config());
  facts.weights_fingerprint =
      weights_fingerprint(model.checkpoint, language_model_tensors(model.checkpoint, w.prefix, w.rules));
  CalibrationFacts calibration;
  calibration.prompts_sha256 = options.prompts_sha256;
  calibration.plan_sha256 = plan.sha256;
  calibration.n_prompts = static_cast<int64_t>(plan.prompts.size());
  calibration.n_tokens = plan.n_tokens_of_all;
  calibration.longest = plan.longest_of_all;
  calibration.max_length = options.sequences.max_length;
  calibration.passes = n_passes;
  if (!model.spec().placeholders.empty()) calibration.encoder_tokens = plan.n_encoder_tokens_of_all;
  calibration.precision = options.precision == Precision::BF16 ? "bf16" : "f32";
  calibration.isa = isa;
  calibration.activation_quant = options.activation_quant;
  calibration.tool_version = std::string("kvcal ") + build_info().version;
  RunRecord record;
  record.model = model_block(model.spec(), facts);
  record.layers_without_kv = layers_without_kv_block(model.spec());
  record.calibration = calibration_block(calibration);
  record.sanity = sanity.to_json();
  record.plan_sha256 = plan.sha256;
  record.tokenizer_sha256 = options.tokenizer_sha256;
  if (const SequenceOptions& s = options.sequences; s.n_shards > 1) record.shard = {s.shard + 1, s.n_shards};
  record.n_passes = n_passes;
  record.prompt_ids = ids_of(plan);
  return record;
}

// The largest share by which the last pass raised any site's absmax.
double last_growth(const Statistics& statistics) {
  double growth = 0;
  for (const CacheStatistics& c : statistics.caches)
    for (const CacheSite site : sites_of(c.layout))
      growth = std::max(growth, pass_growth(c.at(site), statistics.run.n_passes).back().added);
  return growth;
}

void warn_if_suspicious(const SanityCheck& sanity) {
  if (!sanity.suspicious()) return;
  char text[200];
  std::snprintf(
      text, sizeof text,
      "the model predicts these prompts no better than guessing (%.2f nats per token, guessing gives %.2f): the "
      "checkpoint, the tokenizer or their loading is probably broken",
      sanity.mean_nll(), sanity.uniform_nll());
  std::cerr << "kvcal: warning: " << text << '\n';
}

void print_sequences(const char* title, const std::vector<Sequence>& sequences, int pass) {
  int64_t n = 0, tokens = 0;
  for (const Sequence& s : sequences)
    if (s.pass == pass) {
      ++n;
      tokens += s.n_tokens;
    }
  std::cerr << title << ": " << with_separators(n) << " sequences, " << with_separators(tokens) << " tokens\n";
}

// All that the numbers of a run depend on. Threads and chunk sizes are not among it.
Json identity_of(const RunRecord& record, const CalibrationOptions& options) {
  const SequenceOptions& s = options.sequences;
  return {{"model", record.model}, {"calibration", record.calibration}, {"commit", build_info().commit},
          {"sanity", s.sanity},    {"warmup_passes", s.warmup_passes},  {"shard", s.shard},
          {"n_shards", s.n_shards}};
}

std::unique_ptr<ResumeFolder> open_resume(const OpenedModel& model, const SequencePlan& plan,
                                          const CalibrationOptions& options, const std::string& isa) {
  if (options.resume.empty()) return nullptr;
  const RunRecord record = record_of(model, plan, options, isa, options.sequences.passes, SanityCheck(0, plan.prompts));
  auto folder = std::make_unique<ResumeFolder>(options.resume, identity_of(record, options));
  if (folder->layers_done() > 0 && !options.quiet)
    std::cerr << "kvcal: goes on after layer " << folder->layers_done() << " of " << model.spec().layers.size()
              << ", from " << quoted(options.resume.string()) << '\n';
  return folder;
}

// One sweep over the layers for the passes from first_pass on.
class Sweep {
 public:
  Sweep(OpenedModel& model, Ops& op, ThreadPool& pool, const CalibrationOptions& options, const MemoryPlan& memory)
      : model_(model), op_(op), pool_(pool), options_(options), memory_(memory) {}

  Statistics run(const SequencePlan& plan, int first_pass, int n_passes, SanityCheck& sanity,
                 ResumeFolder* resume = nullptr) {
    std::vector<Sequence> measured;
    for (const Sequence& s : plan.measured)
      if (s.pass >= first_pass) measured.push_back(s);
    Observer observer(model_.spec(), {n_passes, ids_of(plan), segments_of(measured)}, pool_, &op_);
    NoTap away;
    std::vector<SequenceGroup> groups;
    if (first_pass == 1) {  // warm-up and sanity belong to the first sweep
      groups.push_back({&plan.warmup, &away, Until::LastKv, nullptr});
      groups.push_back({&plan.sanity, &away, Until::Logits, &sanity});
    }
    groups.push_back({&measured, &observer, Until::LastKv, nullptr});
    report(plan, measured, first_pass, n_passes);

    const int64_t rows = rows_of(groups);
    tokens_run += rows;
    Progress progress("tokens", rows * (model_.spec().last_cache_layer() + 1), options_.quiet);
    int64_t done = resume ? rows * resume->layers_done() : 0;
    Runner runner(*model_.model, op_, model_.weights, memory_);
    if (resume) {
      resume->observe(observer, record_of(model_, plan, options_, op_.isa(), n_passes, SanityCheck(0, plan.prompts)));
      runner.keep_in(*resume);
    }
    runner.on_step([&](const RunStep& step) {
      progress.update(done += step.tokens,
                      "layer " + std::to_string(step.layer + 1) + "/" + std::to_string(step.n_layers));
      if (options_.on_step) options_.on_step(step);
    });
    runner.run(groups, plan.prompts);
    return observer.take(record_of(model_, plan, options_, op_.isa(), n_passes, sanity));
  }

  int64_t tokens_run = 0;

 private:
  static int64_t rows_of(const std::vector<SequenceGroup>& groups) {
    int64_t n = 0;
    for (const SequenceGroup& g : groups) n += tokens_of(*g.sequences);
    return n;
  }

  void report(const SequencePlan& plan, const std::vector<Sequence>& measured, int first_pass, int n_passes) const {
    if (!options_.verbose) return;
    if (first_pass == 1) print_sequences("warm-up", plan.warmup, 0);
    for (int pass = first_pass; pass <= n_passes; ++pass)
      print_sequences(("pass " + std::to_string(pass)).c_str(), measured, pass);
    if (first_pass == 1) print_sequences("sanity", plan.sanity, 0);
  }

  OpenedModel& model_;
  Ops& op_;
  ThreadPool& pool_;
  const CalibrationOptions& options_;
  const MemoryPlan& memory_;
};

}  // namespace

CalibrationPlan plan_calibration(OpenedModel& model, const std::vector<PromptTokens>& prompts,
                                 const CalibrationOptions& options) {
  const ModelSpec& spec = model.spec();
  const bool logits = options.sequences.sanity;
  check_weights(*model.model, model.weights,
                logits ? static_cast<int>(spec.layers.size()) : spec.last_cache_layer() + 1, logits);
  return plan_calibration(model, prompts, options, open_device(options.device, options.precision, options.threads));
}

CalibrationPlan plan_calibration(OpenedModel& model, const std::vector<PromptTokens>& prompts,
                                 const CalibrationOptions& options, std::unique_ptr<Ops> device) {
  CalibrationPlan plan;
  plan.sequences = plan_sequences(prompts, options.sequences);
  MemoryOptions memory;
  memory.budget = options.memory;
  memory.chunk_tokens = options.chunk_tokens;
  memory.precision = options.precision;
  plan.op = std::move(device);
  memory.device = plan.op->device_memory();
  memory.device_statistics_bytes = static_cast<uint64_t>(
      Observer::device_bytes_needed(model.spec(), n_sampled(segments_of(plan.sequences.measured)),
                                    static_cast<int64_t>(prompts.size()), options.sequences.passes));
  memory.statistics_bytes = static_cast<uint64_t>(Observer::bytes_needed(
      model.spec(), plan.sequences.n_tokens(), static_cast<int64_t>(prompts.size()), options.sequences.passes));
  ModelSpec spec = model.spec();
  if (!options.activation_quant.empty())  // rounded copies of the inputs; an input is some other op's output
    for (LayerSpec& layer : spec.layers) layer.activations *= 2;
  plan.memory = plan_memory(spec, model.weights, plan.sequences, memory);
  return plan;
}

CalibrationResult calibrate(OpenedModel& model, const CalibrationPlan& plan, const CalibrationOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  Ops* const op = plan.op.get();
  ThreadPool pool(options.threads ? options.threads : available_processors());
  Sweep sweep(model, *op, pool, options, plan.memory);
  SanityCheck sanity(model.spec().vocab, plan.sequences.prompts);
  CalibrationResult result;
  result.n_passes = options.sequences.passes;
  result.n_tokens = plan.sequences.n_tokens();
  result.resume = open_resume(model, plan.sequences, options, op->isa());
  result.statistics = sweep.run(plan.sequences, 1, result.n_passes, sanity, result.resume.get());
  warn_if_suspicious(sanity);

  SequenceOptions sequences = options.sequences;
  while (options.until_stable >= 0 &&
         (result.n_passes < 2 || 100 * last_growth(result.statistics) > options.until_stable)) {
    if (result.n_passes == kMostPasses) {
      std::cerr << "kvcal: warning: not stable after " << kMostPasses << " passes; more varied prompts are needed\n";
      break;
    }
    sequences.passes = ++result.n_passes;
    const SequencePlan longer = plan_sequences(plan.sequences.prompts, sequences);
    const Statistics added = sweep.run(longer, result.n_passes, result.n_passes, sanity);
    result.statistics = merge(result.statistics, added);
    result.statistics.run = added.run;  // of the longer plan
    result.n_tokens = longer.n_tokens();
  }
  if (options.verbose)
    for (const std::string& note : op->notes()) std::cerr << note << '\n';
  result.n_tokens_run = sweep.tokens_run;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

std::string plan_text(const CalibrationPlan& plan, const ModelSpec& spec) {
  const MemoryPlan& m = plan.memory;
  return "plan: " + with_separators(static_cast<int64_t>(plan.sequences.prompts.size())) + " prompts, " +
         with_separators(static_cast<int64_t>(plan.sequences.measured.size())) +
         (static_cast<int64_t>(plan.sequences.measured.size()) < plan.sequences.n_sequences
              ? " of " + with_separators(plan.sequences.n_sequences)
              : "") +
         " sequences, " + with_separators(plan.sequences.n_tokens()) + " tokens through " +
         std::to_string(spec.last_cache_layer() + 1) + " of " + std::to_string(spec.layers.size()) +
         " layers in batches of " + with_separators(m.chunk_tokens) + "\nplan: " + bytes_text(m.total()) + " of " +
         (m.on_device ? "the device's " : "") + "memory (weights " + bytes_text(m.weights) +
         (m.on_device ? "" : ", file pages " + bytes_text(m.mapped)) + ", residual stream " + bytes_text(m.residual) +
         (m.residual_place == ResidualPlace::Host ? " of two batches, the rest in the host's memory" : "") +
         ", batch " + bytes_text(m.activations) + ", states " + bytes_text(m.states) + ", statistics " +
         bytes_text(m.statistics) + ", program " + bytes_text(m.program) + "), budget " + bytes_text(m.budget) +
         (m.on_device ? "; of the host's " + bytes_text(m.host) : "") + "\n";
}

}  // namespace kvcal
