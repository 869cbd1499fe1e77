// kvcal calibrate MODEL: the main job. Weights and prompts in, statistics and kv-cache-scales.json out.
#include "calibrate/calibrate.h"

#include <CLI/CLI.hpp>

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
