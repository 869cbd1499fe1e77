#include "calibration.h"

#include <chrono>
#include <cmath>
#include <iostream>
#include <utility>

#include "artifact/provenance.h"
#include "base/thread_pool.h"
#include "build_info.h"
#include "checkpoint/config_file.h"
#include "checkpoint/fingerprint.h"
#include "device.h"
#include "prefill/runner.h"
#include "prefill/weight_check.h"
#include "progress.h"
#include "solve/dependence.h"
#include "solve/options.h"
#include "stats/attention_sampler.h"
#include "stats/merge.h"
#include "stats/observer.h"
#include "stats/queries.h"

namespace kvcal {
namespace {

// Prompts that --until-stable begins with: so many, and so large a share of all.
constexpr size_t kFewestPrompts = 8, kFirstShare = 8;

std::vector<std::string> ids_of(const SequencePlan& plan) {
  std::vector<std::string> ids;
  for (const PromptTokens& p : plan.prompts) ids.push_back(p.id);
  return ids;
}

PromptTags tags_of(const SequencePlan& plan) {
  PromptTags tags;
  for (size_t i = 0; i < plan.prompts.size(); ++i)
    for (const std::string& tag : plan.prompts[i].tags) tags[tag].push_back(i);
  return tags;
}

// None where the kinds of some prompt are not known.
std::vector<std::vector<uint8_t>> kinds_of(const SequencePlan& plan) {
  std::vector<std::vector<uint8_t>> kinds;
  for (const PromptTokens& p : plan.prompts) {
    if (p.kinds.size() != p.ids.size()) return {};
    kinds.push_back(p.kinds);
  }
  return kinds;
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
  record.tags = tags_of(plan);
  return record;
}

void warn_if_suspicious(const SanityCheck& sanity) {
  if (!sanity.suspicious()) return;
  char text[200];
  std::snprintf(text, sizeof text,
                "the model predicts these prompts no better than chance (%.2f nats per token; chance is %.2f): the "
                "checkpoint or tokenizer is probably damaged or loaded wrongly",
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
  return {{"model", record.model},
          {"calibration", record.calibration},
          {"commit", build_info().commit},
          {"sanity", s.sanity},
          {"warmup_passes", s.warmup_passes},
          {"shard", s.shard},
          {"n_shards", s.n_shards},
          {"sampled", {static_cast<int>(options.sample.format), options.sample.rungs_below}}};
}

std::unique_ptr<ResumeFolder> open_resume(const OpenedModel& model, const SequencePlan& plan,
                                          const CalibrationOptions& options, const std::string& isa) {
  if (options.resume.empty()) return nullptr;
  const RunRecord record = record_of(model, plan, options, isa, options.sequences.passes, SanityCheck(0, plan.prompts));
  auto folder = std::make_unique<ResumeFolder>(options.resume, identity_of(record, options));
  if (folder->layers_done() > 0 && !options.quiet)
    std::cerr << "kvcal: resuming after layer " << folder->layers_done() << " of " << model.spec().layers.size()
              << ", from " << quoted(options.resume.string()) << '\n';
  return folder;
}

// The measured sequences of a plan that a sweep runs. Warm-up and sanity belong to the first sweep.
struct SweepPart {
  int first_pass = 1, last_pass = 1;
  int64_t first_prompt = 0;  // of sequences of one prompt
  bool is_first() const { return first_pass == 1 && first_prompt == 0; }
  bool has(const Sequence& s) const {
    return s.pass >= first_pass && s.pass <= last_pass && s.pieces.front().prompt >= first_prompt;
  }
};

// One sweep over the layers for a part of a plan.
class Sweep {
 public:
  Sweep(OpenedModel& model, Ops& op, ThreadPool& pool, const CalibrationOptions& options, const MemoryPlan& memory)
      : model_(model), op_(op), pool_(pool), options_(options), memory_(memory) {}

  Statistics run(const SequencePlan& plan, const SweepPart& part, SanityCheck& sanity, ResumeFolder* resume = nullptr) {
    const int n_passes = part.last_pass;
    std::vector<Sequence> measured;
    for (const Sequence& s : plan.measured)
      if (part.has(s)) measured.push_back(s);
    Observer observer(model_.spec(), {n_passes, ids_of(plan), segments_of(measured), kinds_of(plan)}, pool_, &op_,
                      options_.sample);
    NoTap away;
    std::vector<SequenceGroup> groups;
    if (part.is_first()) {
      groups.push_back({&plan.warmup, &away, Until::LastKv, nullptr});
      groups.push_back({&plan.sanity, &away, Until::Logits, &sanity});
    }
    groups.push_back({&measured, &observer, Until::LastKv, nullptr});
    report(plan, measured, part);

    const int64_t rows = rows_of(groups);
    tokens_run += rows;
    Progress progress("tokens", rows * (model_.spec().last_cache_layer() + 1), options_.quiet);
    int64_t done = resume ? rows * resume->layers_done() : 0;
    Runner runner(*model_.model, op_, model_.weights, memory_);
    if (resume) {
      resume->observe(observer, record(plan, n_passes, SanityCheck(0, plan.prompts)));
      runner.keep_in(*resume);
    }
    runner.on_step([&](const RunStep& step) {
      progress.update(done += step.tokens,
                      "layer " + std::to_string(step.layer + 1) + "/" + std::to_string(step.n_layers));
      if (options_.on_step) options_.on_step(step);
    });
    runner.run(groups, plan.prompts);
    return observer.take(record(plan, n_passes, sanity));
  }

  RunRecord record(const SequencePlan& plan, int n_passes, const SanityCheck& sanity) const {
    return record_of(model_, plan, options_, op_.isa(), n_passes, sanity);
  }

  int64_t tokens_run = 0;

 private:
  static int64_t rows_of(const std::vector<SequenceGroup>& groups) {
    int64_t n = 0;
    for (const SequenceGroup& g : groups) n += tokens_of(*g.sequences);
    return n;
  }

  void report(const SequencePlan& plan, const std::vector<Sequence>& measured, const SweepPart& part) const {
    if (!options_.verbose) return;
    if (part.is_first()) print_sequences("warm-up", plan.warmup, 0);
    for (int pass = part.first_pass; pass <= part.last_pass; ++pass)
      print_sequences(("pass " + std::to_string(pass)).c_str(), measured, pass);
    if (part.is_first()) print_sequences("sanity", plan.sanity, 0);
  }

  OpenedModel& model_;
  Ops& op_;
  ThreadPool& pool_;
  const CalibrationOptions& options_;
  const MemoryPlan& memory_;
};

// Why a set of prompts is not known to be enough, "" when it is: what the newest of them raised by more than `percent`,
// or which of them a range depends on.
std::string unsettled(const Statistics& before, const Statistics& after, double percent) {
  for (size_t c = 0; c < after.caches.size(); ++c)
    for (const CacheSite which : sites_of(after.caches[c].layout)) {
      const SiteStatistics& site = after.caches[c].at(which);
      if (site.heads.empty()) continue;
      const std::string name =
          "layer " + std::to_string(after.caches[c].layout.layer) + " " + std::string(name_of(which));
      const double was = static_cast<double>(absmax_of(before.caches[c].at(which))),
                   is = static_cast<double>(absmax_of(site));
      if (100 * (is - was) > percent * was) {
        char text[80];
        std::snprintf(text, sizeof text, " from %.4g to %.4g", was, is);
        return "the last prompts raised " + name + text;
      }
      if (const auto alone = depends_on_prompt(prompt_maxima(site, after.run.n_passes), AssessmentLimits().dependence))
        return name + " depends on prompt " + quoted(after.run.prompt_ids[alone->prompt]) + " alone";
    }
  return "";
}

SequencePlan plan_of_first(const std::vector<PromptTokens>& prompts, size_t n, SequenceOptions options, int passes) {
  options.passes = passes;
  return plan_sequences({prompts.begin(), prompts.begin() + static_cast<ptrdiff_t>(n)}, options);
}

// As many prompts as it takes, each alone.
Statistics draw_prompts(Sweep& sweep, const std::vector<PromptTokens>& prompts, const CalibrationOptions& options,
                        SanityCheck& sanity) {
  const size_t all = prompts.size();
  size_t n = std::min(all, std::max(kFewestPrompts, all / kFirstShare)), before = 0;
  Statistics sum = sweep.run(plan_of_first(prompts, n, options.sequences, 1), SweepPart{}, sanity);
  std::string why = "there are too few to tell";
  while (n < all && !why.empty()) {
    before = std::exchange(n, std::min(all, 2 * n));
    const SequencePlan plan = plan_of_first(prompts, n, options.sequences, 1);
    Statistics more = merge(sum, sweep.run(plan, {1, 1, static_cast<int64_t>(before)}, sanity));
    why = unsettled(sum, more, options.until_stable);
    sum = std::move(more);
  }
  if (!why.empty())
    std::cerr << "kvcal: warning: not stable: all " << n << " prompts are used, and " << why
              << "; use more, or more varied, prompts\n";
  else if (!options.quiet)
    std::cerr << "kvcal: stable with " << n << " of " << all << " prompts: the last " << n - before
              << " raised no absmax by more than " << options.until_stable << " %\n";
  return sum;
}

void calibrate_until_stable(Sweep& sweep, const std::vector<PromptTokens>& prompts, const CalibrationOptions& options,
                            SanityCheck& sanity, CalibrationResult& result) {
  result.statistics = draw_prompts(sweep, prompts, options, sanity);
  const int passes = options.sequences.passes;
  result.drawn = plan_of_first(prompts, result.statistics.run.prompt_ids.size(), options.sequences, passes);
  if (passes > 1) result.statistics = merge(result.statistics, sweep.run(*result.drawn, {2, passes, 0}, sanity));
  result.statistics.run = sweep.record(*result.drawn, passes, sanity);
}

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
  result.resume = open_resume(model, plan.sequences, options, op->isa());
  if (options.until_stable >= 0)
    calibrate_until_stable(sweep, plan.sequences.prompts, options, sanity, result);
  else
    result.statistics = sweep.run(plan.sequences, {1, result.n_passes, 0}, sanity, result.resume.get());
  result.n_tokens = (result.drawn ? *result.drawn : plan.sequences).n_tokens();
  warn_if_suspicious(sanity);
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
         (m.residual_place == ResidualPlace::Host ? " for two batches, the rest in host memory" : "") + ", batch " +
         bytes_text(m.activations) + ", states " + bytes_text(m.states) + ", statistics " + bytes_text(m.statistics) +
         ", program " + bytes_text(m.program) + "), budget " + bytes_text(m.budget) +
         (m.on_device ? "; host memory " + bytes_text(m.host) : "") + "\n";
}

}  // namespace kvcal
