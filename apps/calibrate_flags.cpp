#include "calibrate_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/size_text.h"
#include "build_info.h"
#include "device.h"
#include "progress.h"
#include "shard_flag.h"

namespace kvcal {
namespace {

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

// Of an option and others: "--check cannot be used with --mpi".
auto refuser(const char* option) {
  return [option](bool given, const char* other) {
    if (given) fail(std::string(option) + " cannot be used with " + other);
  };
}

// What leaves something else behind than the scales and statistics of a whole run.
void check_if_changed(const CalibrateFlags& flags) {
  const auto refuse = refuser("--if-changed");
  refuse(flags.dry_run, "--dry-run");
  refuse(!flags.shard.empty(), "--shard, which writes no scale file");
  refuse(flags.until_stable.has_value(), "--until-stable, whose limit the scale file does not record");
  refuse(!flags.evaluation.empty(), "--evaluate; run 'kvcal evaluate' where the scales changed");
}

// Each writes OUT, and what else belongs to one model alone has no place.
void check_refits(const CalibrateFlags& flags) {
  const auto refuse = refuser("--refits");
  refuse(flags.dry_run, "--dry-run");
  refuse(flags.if_changed, "--if-changed");
  refuse(flags.resume, "--resume");
  refuse(flags.mpi, "--mpi");
  refuse(!flags.shard.empty(), "--shard");
  refuse(flags.until_stable.has_value(), "--until-stable, which draws other prompts for each model");
  refuse(!flags.evaluation.empty(), "--evaluate");
  refuse(flags.refits == "-" && std::ranges::find(flags.prompts.files, "-") != flags.prompts.files.end(),
         "--prompts of the same standard input");
}

// --check runs nothing and writes nothing.
void check_check(const CalibrateFlags& flags) {
  const auto refuse = refuser("--check, which runs and writes nothing,");
  refuse(flags.if_changed, "--if-changed");
  refuse(flags.dry_run, "--dry-run");
  refuse(flags.output.force, "--force");
  refuse(flags.resume, "--resume");
  refuse(flags.mpi, "--mpi");
  refuse(!flags.shard.empty(), "--shard");
  refuse(flags.until_stable.has_value(), "--until-stable");
  refuse(!flags.evaluation.empty(), "--evaluate");
  refuse(!flags.refits.empty(), "--refits");
}

// What most runs leave alone.
void add_run_options(CLI::App& verb, CalibrateFlags& flags) {
  const std::string group = "Run";
  verb.add_option("--precision", flags.precision,
                  "bf16: like servers; f32: reference. Quantized weights are dequantized to bf16 in both")
      ->type_name("NAME")
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
                  "packed in other orders. 'by packing' in the table is how much the last pass raised absmax")
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
  verb.add_option("--refits", flags.refits,
                  "Then calibrate each model that a line of FILE (- is standard input) names, too, from the first "
                  "layer whose weights differ from the last one's on, and replace OUT and --stats each time")
      ->group(group)
      ->type_name("FILE");
  verb.add_flag("--no-sanity", flags.no_sanity, "Skip the check that the model predicts the prompts")->group(group);
}

}  // namespace

std::string CalibrateFlags::resume_folder() const {
  return (shard.empty() ? output.path.string() : statistics) + ".kvcal-resume";
}

CalibrationOptions CalibrateFlags::resolve() const {
  if (check) check_check(*this);
  CalibrationOptions options = run;
  options.precision = precision_named(precision);
  if (!memory.empty()) options.memory = parse_size("--memory", memory);
  options.sequences.sanity = !no_sanity;
  if (resume) options.resume = resume_folder();
  if (options.sequences.passes < 1)
    fail("--passes is " + std::to_string(options.sequences.passes) + ", expected 1 or more");
  if (options.sequences.warmup_passes < 0)
    fail("--warmup-passes is " + std::to_string(options.sequences.warmup_passes) + ", expected 0 or more");
  if (mpi) check_ranks(*this);
  if (!shard.empty()) check_shard(*this, options.sequences);
  check_threads(options.threads);
  if (options.chunk_tokens < 0)
    fail("--chunk-tokens is " + std::to_string(options.chunk_tokens) + ", expected 0 (chosen by kvcal) or more");
  if (until_stable) {
    if (resume) fail("--resume cannot be used with --until-stable, which decides the number of prompts during the run");
    if (!std::isfinite(*until_stable) || *until_stable < 0)
      fail("--until-stable is " + std::to_string(*until_stable) + ", expected a percentage, 0 or more");
    options.until_stable = *until_stable;
  }
  if (!evaluation.empty() && (dry_run || !shard.empty()))
    fail("--evaluate needs the scales, which neither --dry-run nor --shard gives");
  if (if_changed) check_if_changed(*this);
  if (!refits.empty()) check_refits(*this);
  output.check_is_file_for({{if_changed, "--if-changed"},
                            {check, "--check"},
                            {resume, "--resume"},
                            {!evaluation.empty(), "--evaluate"},
                            {!refits.empty(), "--refits"}});
  options.solve = solve.resolve();
  options.extent = check           ? Extent::Comparison
                   : dry_run       ? Extent::Plan
                   : shard.empty() ? Extent::Scales
                                   : Extent::Statistics;
  options.tool_version = std::string("kvcal ") + build_info().version;
  options.commit = build_info().commit;
  return options;
}

void CalibrateFlags::add_to(CLI::App& verb) {
  verb.add_option("MODEL", model, "Checkpoint folder")->required();
  output.add_to(verb);
  verb.add_option("--stats", statistics, "Also write the statistics, for 'kvcal solve' and 'kvcal report'")
      ->type_name("FILE");
  verb.add_option(
          "--evaluate", evaluation,
          "Then measure what these scales do to the model's predictions, as 'kvcal evaluate' does, into this file")
      ->type_name("FILE");
  verb.add_option("--device", device, "auto, cpu, cuda, cuda:N; several GPUs: cuda:N,M or cuda:all")
      ->type_name("DEVICE")
      ->capture_default_str();
  verb.add_option("--threads", run.threads, "Number of threads (default: all processors)");
  verb.add_option("--memory", memory,
                  "Memory limit with unit: 16GiB (2^30 bytes) or 16GB (10^9) (default: what is available)")
      ->type_name("SIZE");
  verb.add_flag("--dry-run", dry_run, "Print the plan only");
  verb.add_flag("--if-changed", if_changed,
                "Leave OUT as it is if it was made by this version with the same model, prompts and options; else "
                "replace it");
  verb.add_flag("--check", check,
                "Write nothing; exit with 1 and say why if --if-changed would calibrate, with 0 if OUT is up to date");
  verb.add_option("--progress", progress, kProgressHelp)->type_name("FORM")->capture_default_str();
  prompts.add_to(verb);
  solve.add_scales_to(verb);
  add_run_options(verb, *this);
  solve.add_limits_to(verb);
  verb.footer(
      "Examples:\n"
      "  kvcal calibrate ./Qwen3-0.6B --prompts chats.jsonl -o kv-cache-scales.json\n"
      "  kvcal calibrate ./Qwen3.5-9B --stats run.kvstats --memory 24GiB --dry-run\n"
      "  kvcal calibrate ./model --prompts chats.jsonl --if-changed -q\n"
      "  kvcal calibrate ./model --prompts chats.jsonl --check\n"
      "  kvcal calibrate ./model --prompts chats.jsonl --shard 1/2 --stats 1.kvstats\n"
      "  kvcal calibrate ./Qwen3-8B-FP8 --emulate-activation-quant -o as-served.json\n"
      "  kvcal calibrate ./model --granularity head --max-model-len 131072");
}

}  // namespace kvcal
