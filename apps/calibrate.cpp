// kvcal calibrate MODEL: the main job. Weights and prompts in, statistics and kv-cache-scales.json out.
#include "calibrate/calibrate.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

#include "artifact/make_artifact.h"
#include "artifact_output.h"
#include "base/atomic_file.h"
#include "base/read_file.h"
#include "base/sha256.h"
#include "calibrate_flags.h"
#include "closing_text.h"
#include "console.h"
#include "device.h"
#include "evaluate.h"
#include "hub_cache.h"
#include "if_changed.h"
#include "plan_text.h"
#include "progress.h"
#include "ranks.h"
#include "shard_flag.h"
#include "solve/solution.h"
#include "stats/statistics_file.h"
#include "terminal.h"
#include "verbs.h"

namespace kvcal {
namespace {

Existing existing(const CalibrateFlags& flags) { return flags.output.force ? Existing::Replace : Existing::Refuse; }

// A run that was killed between its statistics and its scales leaves the former and what --resume goes on from.
bool may_be_of_this_run(const CalibrateFlags& flags) {
  std::error_code ignored;
  return flags.resume && std::filesystem::exists(flags.statistics, ignored) &&
         std::filesystem::exists(flags.resume_folder(), ignored);
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
  const std::vector<std::string>& prompts = flags.prompts.files;
  if (!flags.evaluation.empty() && std::ranges::find(prompts, "-") != prompts.end())
    fail("--evaluate reads the prompts again, expected files as --prompts, not -");
}

// Saves the statistics as soon as there are some: computing scales from them may fail.
class CalibrateConsole final : public Console {
 public:
  explicit CalibrateConsole(const CalibrateFlags& flags)
      : Console(flags.output.quiet, progress_form(flags.progress), flags.output.verbose), flags_(flags) {}

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

NextStepInputs next_of(const CalibrateFlags& flags) {
  return {.scales = {},
          .model = flags.named,
          .folder = flags.model,
          .prompts = words_of(flags.prompts),
          .evaluates = !flags.evaluation.empty()};
}

// Returns what the closing line says of the file.
std::string write_scales(const CalibrateFlags& flags, const CalibrationResult& result, const Json& more) {
  const Artifact& artifact = *result.artifact;
  const std::string sha256 = flags.output.write(artifact);
  if (result.resume) result.resume->remove();
  flags.output.print(artifact, sha256, more, next_of(flags));
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

void say_up_to_date(const CalibrateFlags& flags, const EarlierResult& earlier) {
  if (!flags.output.quiet)
    say("kvcal: ", flags.output.path.string(),
        " is up to date: model, prompts and options are those it was made with; sha256 ", earlier.sha256.substr(0, 16));
}

// Nothing was run: the file and its statistics stay as they are.
Exit kept(const CalibrateFlags& flags, const EarlierResult& earlier) {
  flags.output.print(*earlier.artifact, earlier.sha256, {{"changed", false}}, next_of(flags));
  say_up_to_date(flags, earlier);
  return Exit::Done;
}

// Of several GPUs its own.
void take_device(CalibrateFlags& flags, int64_t on_host) {
  const std::string device = device_of_process(flags.device, on_host);
  if (device != flags.device && flags.output.verbose)
    say("kvcal: process ", on_host, " of this machine computes on ", device);
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
  CalibrationOptions options = flags.resolve();
  options.prompts = flags.prompts.resolve();
  return options;
}

CalibrationInputs inputs_of(const CalibrateFlags& flags, const CalibrationOptions& options) {
  return {.model = flags.model,
          .prompts = [&](bool chat) { return read_prompt_files(flags.prompts, chat); },
          .open_devices = [&] { return open_devices(flags.device, options.precision, options.threads); }};
}

// Whether --if-changed would leave the file as it is.
Exit checked(const CalibrateFlags& flags, CalibrationOptions options, CalibrateConsole& console) {
  const EarlierResult earlier = earlier_result(flags.output.path, flags.statistics, true);
  std::string why = earlier.why;
  if (earlier.artifact) {
    options.earlier = &*earlier.artifact;
    const std::string changes = calibrate(inputs_of(flags, options), options, console).changes;
    if (!changes.empty()) why = "changed: " + changes;
  } else if (why.empty()) {
    why = "there is no such file";
  }
  const std::string file = flags.output.path.string();
  if (flags.output.json)
    write_json({{"scales", file}, {"stale", !why.empty()}, {"why", why}});
  else if (why.empty())
    flags.output.print(*earlier.artifact, earlier.sha256, {}, next_of(flags));
  if (!why.empty())
    say("kvcal: ", file, " is stale; ", why);
  else
    say_up_to_date(flags, earlier);
  return why.empty() ? Exit::Done : Exit::Findings;
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
  if (flags.check) return checked(flags, std::move(options), console);
  EarlierResult earlier;
  if (flags.if_changed) {
    earlier = earlier_result(flags.output.path, flags.statistics, flags.output.force);
    if (!earlier.why.empty()) console.hear(Notice::Note, "calibrating again; " + earlier.why);
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

}  // namespace

void add_calibrate(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<CalibrateFlags>();
  CLI::App* verb =
      app.add_subcommand("calibrate", "Measure keys, values and queries over prompts and write the scale file");
  flags->add_to(*verb);
  verb->callback([flags, verb, &chosen] {
    flags->solve.refuse_idle_options(*verb);
    flags->scale_option = scale_option_given(*verb);
    chosen = [flags] {
      flags->named = flags->model;
      flags->model = model_folder(flags->model);
      return run(*flags);
    };
  });
}

}  // namespace kvcal
