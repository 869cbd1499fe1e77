// kvcal calibrate MODEL: the main job. Weights and prompts in, statistics and kv-cache-scales.json out.
#include "calibrate/calibrate.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <limits>

#include "artifact/make_artifact.h"
#include "artifact_output.h"
#include "base/atomic_file.h"
#include "base/read_file.h"
#include "base/sha256.h"
#include "base/size_text.h"
#include "build_info.h"
#include "closing_text.h"
#include "console.h"
#include "device.h"
#include "evaluate.h"
#include "hub_cache.h"
#include "if_changed.h"
#include "plan_text.h"
#include "progress.h"
#include "prompt_flags.h"
#include "ranks.h"
#include "shard_flag.h"
#include "solve/solution.h"
#include "solve_flags.h"
#include "stats/statistics_file.h"
#include "terminal.h"
#include "verbs.h"

namespace kvcal {
namespace {

struct CalibrateFlags {
  std::string model, statistics, memory, shard, device = "auto", precision = "bf16", progress = "auto";
  std::string scale_option;  // the first one given, "" for none
  PromptFlags prompts;
  CalibrationOptions run;
  SolveFlags solve;
  ArtifactOutput output;
  std::optional<double> until_stable;  // percent
  std::string evaluation;              // file to write, "" for none
  bool dry_run = false, no_sanity = false, resume = false, verbose = false, if_changed = false, mpi = false;
};

// Ranks are shards that one command merges and solves.
void check_ranks(const CalibrateFlags& flags) {
  if (!flags.shard.empty()) fail("--mpi and --shard both divide the run, expected one of them");
  if (flags.until_stable)
    fail("--until-stable cannot be used with --mpi: a rank does not see the other ranks' prompts");
  if (flags.if_changed) fail("--if-changed cannot be used with --mpi");
  if (flags.dry_run) fail("--mpi has no effect on --dry-run; --shard 1/N shows what a rank of N needs");
}

// A shard has seen a part of the prompts: it gives statistics, and scales only when all are merged.
void check_shard(const CalibrateFlags& flags, SequenceOptions& sequences) {
  take_shard(flags.shard, sequences);
  if (!flags.scale_option.empty())
    fail(flags.scale_option +
         " has no effect with --shard, which computes no scales; pass it to 'kvcal solve' after 'kvcal merge'");
  if (flags.until_stable)
    fail("--until-stable cannot be used with --shard: a shard does not see the other shards' prompts");
  if (flags.statistics.empty() && !flags.dry_run)
    fail("--shard needs --stats FILE: a shard writes only statistics, for 'kvcal merge'");
}

// What leaves something else behind than the scales and statistics of a whole run.
void check_if_changed(const CalibrateFlags& flags) {
  const auto refuse = [](bool given, const char* name) {
    if (given) fail(std::string("--if-changed cannot be used with ") + name);
  };
  refuse(flags.dry_run, "--dry-run");
  refuse(!flags.shard.empty(), "--shard, which writes no scale file");
  refuse(flags.until_stable.has_value(), "--until-stable, whose limit the scale file does not record");
  refuse(!flags.evaluation.empty(), "--evaluate; run 'kvcal evaluate' where the scales changed");
}

std::string resume_folder(const CalibrateFlags& flags) {
  return (flags.shard.empty() ? flags.output.path.string() : flags.statistics) + ".kvcal-resume";
}

CalibrationOptions resolve(const CalibrateFlags& flags) {
  CalibrationOptions options = flags.run;
  options.precision = precision_named(flags.precision);
  if (!flags.memory.empty()) options.memory = parse_size("--memory", flags.memory);
  options.sequences.sanity = !flags.no_sanity;
  if (flags.resume) options.resume = resume_folder(flags);
  if (options.sequences.passes < 1)
    fail("--passes is " + std::to_string(options.sequences.passes) + ", expected 1 or more");
  if (options.sequences.warmup_passes < 0)
    fail("--warmup-passes is " + std::to_string(options.sequences.warmup_passes) + ", expected 0 or more");
  if (flags.mpi) check_ranks(flags);
  if (!flags.shard.empty()) check_shard(flags, options.sequences);
  check_threads(options.threads);
  if (options.chunk_tokens < 0)
    fail("--chunk-tokens is " + std::to_string(options.chunk_tokens) + ", expected 0 (chosen by kvcal) or more");
  if (flags.until_stable) {
    if (flags.resume)
      fail("--resume cannot be used with --until-stable, which decides the number of prompts during the run");
    if (!std::isfinite(*flags.until_stable) || *flags.until_stable < 0)
      fail("--until-stable is " + std::to_string(*flags.until_stable) + ", expected a percentage, 0 or more");
    options.until_stable = *flags.until_stable;
  }
  if (!flags.evaluation.empty() && (flags.dry_run || !flags.shard.empty()))
    fail("--evaluate needs the scales, which neither --dry-run nor --shard gives");
  if (flags.if_changed) check_if_changed(flags);
  flags.output.check_is_file_for(
      {{flags.if_changed, "--if-changed"}, {flags.resume, "--resume"}, {!flags.evaluation.empty(), "--evaluate"}});
  options.solve = flags.solve.resolve();
  options.extent = flags.dry_run ? Extent::Plan : flags.shard.empty() ? Extent::Scales : Extent::Statistics;
  options.tool_version = std::string("kvcal ") + build_info().version;
  options.commit = build_info().commit;
  return options;
}

Existing existing(const CalibrateFlags& flags) { return flags.output.force ? Existing::Replace : Existing::Refuse; }

// A run that was killed between its statistics and its scales leaves the former and what --resume goes on from.
bool may_be_of_this_run(const CalibrateFlags& flags) {
  std::error_code ignored;
  return flags.resume && std::filesystem::exists(flags.statistics, ignored) &&
         std::filesystem::exists(resume_folder(flags), ignored);
}

// Before hours of work.
void check_outputs(const CalibrateFlags& flags) {
  std::vector<NamedOutput> outputs;
  if (flags.shard.empty()) outputs.push_back({"--out", flags.output.path});
  if (!flags.statistics.empty()) outputs.push_back({"--stats", flags.statistics});
  if (!flags.evaluation.empty()) outputs.push_back({"--evaluate", flags.evaluation});
  check_different(outputs);
  if (!flags.statistics.empty())
    check_writable(flags.statistics, may_be_of_this_run(flags) ? Existing::Replace : existing(flags));
  if (!flags.evaluation.empty()) check_writable(flags.evaluation, existing(flags));
  if (flags.shard.empty()) flags.output.check(flags.statistics.empty());
}

// Saves the statistics as soon as there are some: computing scales from them may fail.
class CalibrateConsole final : public Console {
 public:
  explicit CalibrateConsole(const CalibrateFlags& flags)
      : Console(flags.output.quiet, progress_form(flags.progress), flags.verbose), flags_(flags) {}

  // Once more: now it is known what the command reads.
  void planned(const CalibrationPlan& plan, const ModelSpec& spec) override {
    if (!flags_.dry_run) check_outputs(flags_);
    Console::planned(plan, spec);
  }

  void measured(const Statistics& statistics) override {
    if (flags_.statistics.empty()) return;
    const bool rewrites = may_be_of_this_run(flags_) && are_of_run(flags_.statistics, statistics.run);
    write_statistics(flags_.statistics, statistics, rewrites ? Existing::Replace : existing(flags_));
    statistics_sha256_ = sha256_hex(read_file(flags_.statistics, std::numeric_limits<size_t>::max()));
  }

  const std::string& statistics_sha256() const { return statistics_sha256_; }  // of the file; "" without one

 private:
  const CalibrateFlags& flags_;
  std::string statistics_sha256_;
};

Json result_json(const CalibrateFlags& flags, const CalibrationResult& result, const std::string& statistics_sha256) {
  Json json = plan_json(result.sequences, result.memory);
  if (!statistics_sha256.empty()) {
    json["statistics"] = flags.statistics;
    json["statistics_sha256"] = statistics_sha256;
  }
  json["n_passes"] = result.statistics.run.n_passes;
  json["seconds"] = result.seconds;
  return json;
}

// Returns what the closing line says of the file.
std::string write_scales(const CalibrateFlags& flags, const CalibrationResult& result, const Json& more) {
  const Artifact& artifact = *result.artifact;
  const std::string sha256 = flags.output.write(artifact);
  if (result.resume) result.resume->remove();
  flags.output.print(artifact, sha256, more);
  if (!flags.output.quiet && !result.activation_quant.empty())
    say(emulation_text(result.activation_quant, flags.output.path));
  return flags.output.name() + " sha256 " + sha256.substr(0, 16);
}

// On the same prompts, with the scales that were just written.
Exit evaluated(const CalibrateFlags& flags, const CalibrationOptions& options) {
  EvaluateFlags evaluation;
  evaluation.model = flags.model;
  evaluation.scales = {flags.output.path.string()};
  evaluation.prompts = flags.prompts;
  evaluation.device = first_device(flags.device);
  evaluation.precision = flags.precision;
  evaluation.memory = flags.memory;
  evaluation.run.threads = options.threads;
  evaluation.run.chunk_tokens = options.chunk_tokens;
  evaluation.run.max_model_len = options.solve.max_model_len;
  evaluation.out = flags.evaluation;
  evaluation.force = flags.output.force;
  evaluation.progress = flags.progress;
  evaluation.quiet = flags.output.quiet || flags.output.json;
  return run_evaluation(evaluation);
}

// Nothing was run: the file and its statistics stay as they are.
Exit kept(const CalibrateFlags& flags, const EarlierResult& earlier) {
  if (flags.output.json) flags.output.print(*earlier.artifact, earlier.sha256, {{"changed", false}});
  if (!flags.output.quiet)
    say("kvcal: ", flags.output.path.string(),
        " is up to date: model, prompts and options are those it was made with; sha256 ", earlier.sha256.substr(0, 16));
  return Exit::Done;
}

// Of several GPUs its own.
void take_device(CalibrateFlags& flags, int64_t on_host) {
  const std::string device = device_of_process(flags.device, on_host);
  if (device != flags.device && flags.verbose) say("kvcal: process ", on_host, " of this machine computes on ", device);
  flags.device = device;
}

// A part of a job: every process got the same flags, and writes a file of its own.
void settle_shard(CalibrateFlags& flags) {
  const SettledShard shard = settled_shard(flags.shard);
  if (shard.text == flags.shard) return;
  if (!flags.statistics.empty()) flags.statistics = shard_file(flags.statistics, shard.text).string();
  flags.shard = shard.text;
  take_device(flags, shard.on_host);
}

CalibrationOptions resolved(const CalibrateFlags& flags) {
  CalibrationOptions options = resolve(flags);
  options.prompts = flags.prompts.resolve();
  return options;
}

CalibrationInputs inputs_of(const CalibrateFlags& flags, const CalibrationOptions& options) {
  return {.model = flags.model,
          .prompts = [&](bool chat) { return read_prompt_files(flags.prompts, chat); },
          .open_devices = [&] { return open_devices(flags.device, options.precision, options.threads); }};
}

// Whatever is to be written and said.
void finish(const CalibrateFlags& flags, const CalibrationResult& result, const CalibrateConsole& console) {
  Json more = result_json(flags, result, console.statistics_sha256());
  if (flags.if_changed) more["changed"] = true;
  std::string digests =
      flags.statistics.empty() ? "" : "statistics sha256 " + console.statistics_sha256().substr(0, 16);
  if (flags.shard.empty()) {
    digests += (digests.empty() ? "" : ", ") + write_scales(flags, result, more);
  } else {
    if (result.resume) result.resume->remove();
    if (flags.output.json) write_json(more);
    digests = "shard " + flags.shard + ", " + digests;
  }
  if (!flags.output.quiet) say(closing_text(result, digests));
}

// Rank 0 is ready first: what is wrong with the command line is said once.
Exit run_as_rank(CalibrateFlags& flags, RankGroup& ranks) {
  take_device(flags, ranks.rank_on_host());
  if (ranks.rank() > 0) ranks.broadcast("");
  const CalibrationOptions options = resolved(flags);
  if (ranks.rank() == 0) {
    check_outputs(flags);
    ranks.broadcast("");
  }
  CalibrateConsole console(flags);
  RankedCalibration run(ranks, inputs_of(flags, options), options, console);
  CalibrationResult result = run.run();
  if (ranks.rank() == 0) {
    console.measured(result.statistics);
    result.artifact = make_artifact(result.statistics, solve(result.statistics, options.solve));
    finish(flags, result, console);
  }
  ranks.finish();
  run.remove_states();
  return ranks.rank() > 0 || flags.evaluation.empty() ? Exit::Done : evaluated(flags, options);
}

Exit run(CalibrateFlags flags) {
  if (flags.mpi) {
    const std::unique_ptr<RankGroup> ranks = join_ranks();
    return while_doing(name_of(*ranks), [&] { return run_as_rank(flags, *ranks); });
  }
  settle_shard(flags);
  CalibrationOptions options = resolved(flags);
  CalibrateConsole console(flags);
  EarlierResult earlier;
  if (flags.if_changed) {
    earlier = earlier_result(flags.output.path, flags.statistics, flags.output.force, console);
    flags.output.force |= earlier.replaceable;
    options.earlier = earlier.artifact ? &*earlier.artifact : nullptr;
  }
  if (!flags.dry_run) check_outputs(flags);
  const CalibrationResult result = calibrate(inputs_of(flags, options), options, console);
  if (result.earlier_stands) return kept(flags, earlier);
  if (flags.dry_run) {
    if (flags.output.json) write_json(plan_json(result.sequences, result.memory));
    return Exit::Done;
  }
  finish(flags, result, console);
  return flags.evaluation.empty() ? Exit::Done : evaluated(flags, options);
}

// What most runs leave alone.
void add_run_options(CLI::App& verb, CalibrateFlags& flags) {
  const std::string group = "Run";
  verb.add_option("--precision", flags.precision,
                  "bf16: like servers; f32: reference. Quantized weights are dequantized to bf16 in both")
      ->group(group)
      ->capture_default_str();
  verb.add_flag("--emulate-activation-quant", flags.run.emulate_activations,
                "Round the inputs of FP8 weights as servers do: per token, per group or with the checkpoint's static "
                "scales")
      ->group(group);
  verb.add_flag("--mtp", flags.run.mtp, "Measure the cache of the MTP layer too, for servers that draft tokens with it")
      ->group(group);
  verb.add_option("--passes", flags.run.sequences.passes,
                  "Measured passes over the prompts: 1: each prompt alone; 2: also packed end to end; 3 and more: also "
                  "packed in other orders. 'packing adds' in the table is how much the last pass raised absmax")
      ->group(group)
      ->capture_default_str();
  verb.add_option("--warmup-passes", flags.run.sequences.warmup_passes,
                  "Passes over a few prompts to run first and discard; results do not depend on them")
      ->group(group)
      ->capture_default_str();
  verb.add_option("--until-stable", flags.until_stable,
                  "Start with the first eighth of the prompts (by id) and double until the new ones raise no absmax by "
                  "more than PCT % "
                  "and no absmax depends on a single prompt; then run all passes over these")
      ->group(group)
      ->type_name("PCT");
  verb.add_option(
          "--shard", flags.shard,
          "Run part i of n of the sequences; writes only --stats, for 'kvcal merge'. auto: the part that Slurm, "
          "mpirun, torchrun or Kubernetes gave this process, into FILE.i-of-n; auto/n where they do not say n")
      ->group(group)
      ->type_name("i/n");
  verb.add_flag("--mpi", flags.mpi,
                "Divide the sequences among the ranks of the MPI job that this process belongs to; rank 0 reads the "
                "prompts and writes the results")
      ->group(group);
  verb.add_flag("--resume", flags.resume,
                "Save the state after each layer in OUT.kvcal-resume (for shards: next to the --stats file), and "
                "continue from there if a run was interrupted")
      ->group(group);
  verb.add_option("--chunk-tokens", flags.run.chunk_tokens,
                  "Tokens per batch, rounded down to a multiple of 256 (default: as memory allows)")
      ->group(group);
  verb.add_flag("--no-sanity", flags.no_sanity, "Skip the check that the model predicts the prompts")->group(group);
}

}  // namespace

void add_calibrate(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<CalibrateFlags>();
  CLI::App* verb =
      app.add_subcommand("calibrate", "Measure keys, values and queries over prompts and write the scale file");
  verb->add_option("MODEL", flags->model, "Checkpoint folder")->required();
  flags->output.add_to(*verb);
  verb->add_option("--stats", flags->statistics, "Also write the statistics, for 'kvcal solve' and 'kvcal report'");
  verb->add_option(
          "--evaluate", flags->evaluation,
          "Then measure what these scales do to the model's predictions, as 'kvcal evaluate' does, into this file")
      ->type_name("FILE");
  verb->add_option("--device", flags->device, "auto, cpu, cuda, cuda:N; several GPUs: cuda:N,M or cuda:all")
      ->capture_default_str();
  verb->add_option("--threads", flags->run.threads, "Number of threads (default: all processors)");
  verb->add_option("--memory", flags->memory,
                   "Memory limit with unit: 16GiB (2^30 bytes) or 16GB (10^9) (default: what is available)");
  verb->add_flag("--dry-run", flags->dry_run, "Print the plan only");
  verb->add_flag("--if-changed", flags->if_changed,
                 "Leave OUT as it is if it was made by this version with the same model, prompts and options; else "
                 "replace it");
  verb->add_option("--progress", flags->progress, kProgressHelp)->type_name("FORM")->capture_default_str();
  verb->add_flag("-v,--verbose", flags->verbose, "Also print the tokens of every pass and the tensors not read");
  flags->prompts.add_to(*verb);
  flags->solve.add_scales_to(*verb);
  add_run_options(*verb, *flags);
  flags->solve.add_limits_to(*verb);
  verb->footer(
      "Examples:\n"
      "  kvcal calibrate ./Qwen3-0.6B --prompts chats.jsonl -o kv-cache-scales.json\n"
      "  kvcal calibrate ./Qwen3.5-9B --stats run.kvstats --memory 24GiB --dry-run\n"
      "  kvcal calibrate ./model --prompts chats.jsonl --if-changed -q --progress json\n"
      "  kvcal calibrate ./model --prompts chats.jsonl --shard 1/2 --stats 1.kvstats\n"
      "  kvcal calibrate ./Qwen3-8B-FP8 --emulate-activation-quant -o as-served.json\n"
      "  kvcal calibrate ./model --policy pow2 --granularity head --max-model-len 131072");
  verb->callback([flags, verb, &chosen] {
    flags->solve.refuse_idle_options(*verb);
    flags->scale_option = scale_option_given(*verb);
    chosen = [flags] {
      flags->model = model_folder(flags->model);
      return run(*flags);
    };
  });
}

}  // namespace kvcal
