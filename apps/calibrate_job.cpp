#include "calibrate_job.h"

#include <algorithm>
#include <limits>

#include "artifact_output.h"
#include "base/atomic_file.h"
#include "base/read_file.h"
#include "base/sha256.h"
#include "closing_text.h"
#include "device.h"
#include "evaluate.h"
#include "plan_text.h"
#include "progress.h"
#include "ranks.h"
#include "stats/statistics_file.h"
#include "terminal.h"

namespace kvcal {
namespace {

Existing existing(const CalibrateFlags& flags) { return flags.output.force ? Existing::Replace : Existing::Refuse; }

// A run that was killed between its statistics and its scales leaves the former and what --resume goes on from.
bool may_be_of_this_run(const CalibrateFlags& flags) {
  std::error_code ignored;
  return flags.resume && std::filesystem::exists(flags.statistics, ignored) &&
         std::filesystem::exists(flags.resume_folder(), ignored);
}

Json result_json(const CalibrateFlags& flags, const CalibrationResult& result, const std::string& statistics_sha256) {
  Json json = plan_json(result.sequences, result.memory);
  if (!statistics_sha256.empty()) {
    json["statistics"] = flags.statistics;
    json["statistics_sha256"] = statistics_sha256;
  }
  json["n_passes"] = result.statistics.run.n_passes;
  if (!flags.refits.empty()) json["layers_kept"] = result.layers_kept;
  json["seconds"] = result.seconds;
  return json;
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

}  // namespace

void check_outputs(const CalibrateFlags& flags) {
  std::vector<NamedOutput> outputs;
  if (flags.shard.empty()) outputs.push_back({"--out", flags.output.path});
  if (!flags.statistics.empty()) outputs.push_back({"--stats", flags.statistics});
  if (!flags.evaluation.empty()) outputs.push_back({"--evaluate", flags.evaluation});
  if (!flags.refits.empty() && flags.refits != "-") outputs.push_back({"--refits", flags.refits});  // read to the end
  check_different(outputs);
  if (!flags.statistics.empty())
    check_writable(flags.statistics, may_be_of_this_run(flags) ? Existing::Replace : existing(flags));
  if (!flags.evaluation.empty()) check_writable(flags.evaluation, existing(flags));
  if (flags.shard.empty()) flags.output.check(flags.statistics.empty());
  const std::vector<std::string>& prompts = flags.prompts.files;
  if (!flags.evaluation.empty() && std::ranges::find(prompts, "-") != prompts.end())
    fail("--evaluate reads the prompts again, expected files as --prompts, not -");
}

CalibrateConsole::CalibrateConsole(const CalibrateFlags& flags)
    : Console(flags.output.quiet, progress_form(flags.progress), flags.output.verbose), flags_(flags) {}

// Once more: now it is known what the command reads.
void CalibrateConsole::planned(const CalibrationPlan& plan, const ModelSpec& spec) {
  if (!flags_.dry_run) check_outputs(flags_);
  Console::planned(plan, spec);
}

void CalibrateConsole::measured(const Statistics& statistics) {
  if (flags_.statistics.empty()) return;
  const bool rewrites = may_be_of_this_run(flags_) && are_of_run(flags_.statistics, statistics.run);
  write_statistics(flags_.statistics, statistics, rewrites ? Existing::Replace : existing(flags_));
  statistics_sha256_ = sha256_hex(read_file(flags_.statistics, std::numeric_limits<size_t>::max()));
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

void take_device(CalibrateFlags& flags, int64_t on_host) {
  const std::string device = device_of_process(flags.device, on_host);
  if (device != flags.device && flags.output.verbose)
    say("kvcal: process ", on_host, " of this machine computes on ", device);
  flags.device = device;
}

NextStepInputs next_of(const CalibrateFlags& flags) {
  return {.scales = {},
          .model = flags.named,
          .folder = flags.model,
          .prompts = words_of(flags.prompts),
          .evaluates = !flags.evaluation.empty()};
}

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

Exit evaluate_written(const CalibrateFlags& flags, const CalibrationOptions& options) {
  EvaluateFlags evaluation;
  evaluation.model = flags.model;
  evaluation.named = flags.named;
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

}  // namespace kvcal
