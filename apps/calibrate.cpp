// kvcal calibrate MODEL: the main job. Weights and prompts in, statistics and kv-cache-scales.json out.
#include "calibrate/calibrate.h"

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <optional>
#include <utility>

#include "base/input_files.h"
#include "calibrate/kept_layers.h"
#include "calibrate_flags.h"
#include "calibrate_job.h"
#include "hub_cache.h"
#include "if_changed.h"
#include "plan_text.h"
#include "shard_flag.h"
#include "terminal.h"

namespace kvcal {
namespace {

// A part of a job: every process got the same flags, and writes a file of its own.
void settle_shard(CalibrateFlags& flags) {
  const SettledShard shard = settled_shard(flags.shard);
  if (shard.text == flags.shard) return;
  if (!flags.statistics.empty()) flags.statistics = shard_file(flags.statistics, shard.text).string();
  flags.shard = shard.text;
  take_device(flags, shard.on_host);
}

Exit run(CalibrateFlags flags) {
  if (flags.mpi) return calibrate_as_rank(flags);
  settle_shard(flags);
  CalibrationOptions options = resolved(flags);
  CalibrateConsole console(flags);
  if (flags.check) return check_up_to_date(flags, std::move(options), console);
  EarlierResult earlier;
  if (flags.if_changed) {
    earlier = earlier_result(flags.output.path, flags.statistics, flags.output.force);
    if (!earlier.why.empty()) console.hear(Notice::Note, "calibrating again; " + earlier.why);
    flags.output.force |= earlier.replaceable;
    options.earlier = earlier.artifact ? &*earlier.artifact : nullptr;
  }
  if (!flags.dry_run) check_outputs(flags);
  const CalibrationResult result = calibrate(inputs_of(flags, options), options, console);
  if (result.earlier_stands) return keep_earlier(flags, earlier);
  if (flags.dry_run) {
    if (flags.output.json) write_json(plan_json(result.sequences, result.memory));
    return Exit::Done;
  }
  finish(flags, result, console);
  return flags.evaluation.empty() ? Exit::Done : evaluate_written(flags, options);
}

void open_list(const std::string& name, std::ifstream& file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(name, ignored))
    fail("--refits " + quoted(name) + ": is a folder, expected a file with one in each line");
  file.open(name);
  if (!file) fail("--refits " + quoted(name) + ": cannot be opened");
}

// "" at the end.
std::string next_model(std::istream& models) {
  for (std::string line; std::getline(models, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) return line;
  }
  if (models.bad()) fail("--refits: cannot be read to its end");
  return "";
}

// Prompts are read once: they may come from a pipe. Files that they name are read each time, and have to stay.
Exit run_with_refits(CalibrateFlags flags) {
  const CalibrationOptions checked = resolved(flags);
  std::ifstream file;
  if (flags.refits != "-") open_list(flags.refits, file);
  std::istream& models = flags.refits == "-" ? std::cin : file;
  KeptLayers kept;
  std::optional<PromptSet> prompts;
  for (;;) {
    CalibrateConsole console(flags);
    CalibrationOptions options = checked;
    options.kept = &kept;
    CalibrationInputs inputs = inputs_of(flags, options);
    inputs.prompts = [&, read = inputs.prompts](bool chat) {
      if (flags.prompts.files.empty()) return read(chat);
      if (!prompts) prompts = read(chat);
      return *prompts;
    };
    check_outputs(flags);
    CalibrationResult result = calibrate(inputs, options, console);
    finish(flags, result, console);
    flush_output();
    kept.keep(std::move(result.statistics));
    flags.named = next_model(models);
    if (flags.named.empty()) return Exit::Done;
    forget_inputs();
    forget_input(flags.statistics);  // read for its sum
    flags.model = model_folder(flags.named);
    flags.output.force = true;
  }
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
    chosen = [flags, refits = verb->count("--refits") > 0] {
      flags->named = flags->model;
      flags->model = model_folder(flags->model);
      return refits ? run_with_refits(*flags) : run(*flags);
    };
  });
}

}  // namespace kvcal
