// kvcal export SCALES: what a server loads, and the command that serves it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <iostream>
#include <memory>
#include <sstream>

#include "artifact/artifact.h"
#include "artifact/json_text.h"
#include "base/read_file.h"
#include "base/sha256.h"
#include "build_info.h"
#include "checkpoint/config_file.h"
#include "export/exporter.h"
#include "export/layer_scales.h"
#include "export/write_export.h"
#include "json_output.h"
#include "verbs.h"

namespace kvcal {
namespace {

constexpr size_t kMostScaleBytes = size_t{64} << 20;

struct ExportFlags {
  std::string scales, model, target = "vllm", out, granularity, skip_layers;
  std::vector<std::string> also_for;
  int64_t tensor_parallel = 1;
  bool no_query = false, nvfp4 = false, allow_keep16 = false, replace_scales = false;
  bool copy = false, in_place = false, undo = false, force = false, json = false, dry_run = false;
};

/// "keep16" ("inadequate" in version 1.0 of the file), or numbers: "3,7" and "3-5".
void read_skip_layers(const std::string& text, ExportOptions& options) {
  std::stringstream parts(text);
  const auto bad = [&] { fail("--skip-layers is " + quoted(text) + ", expected 'keep16' or layers such as 3,7-9"); };
  for (std::string part; std::getline(parts, part, ',');) {
    if (part == "keep16" || part == "inadequate") {
      options.skip_keep16 = true;
      continue;
    }
    int first = 0;
    const char* const end = part.data() + part.size();
    auto [next, error] = std::from_chars(part.data(), end, first);
    int last = first;
    if (error == std::errc() && next != end && *next == '-') {
      const auto range = std::from_chars(next + 1, end, last);
      next = range.ptr;
      error = range.ec;
    }
    if (part.empty() || error != std::errc() || next != end || first < 0 || last < first || last > 100'000) bad();
    for (int layer = first; layer <= last; ++layer) options.skip_layers.push_back(layer);
  }
}

void check_usage(const ExportFlags& flags, const Exporter& exporter) {
  if (flags.tensor_parallel < 1 || flags.tensor_parallel > 1024)
    fail("--tp is " + std::to_string(flags.tensor_parallel) + ", expected 1 to 1024");
  const auto only_for = [&](bool used, const char* flag, std::string_view target) {
    if (used && exporter.name != target)
      fail(std::string(flag) + " is for '--to " + std::string(target) + "', not for '--to " + flags.target + "'");
  };
  only_for(flags.tensor_parallel != 1, "--tp", "sglang-json");
  only_for(flags.nvfp4, "--nvfp4", "modelopt");
  only_for(!flags.also_for.empty(), "--also-for", "scales");
  if (exporter.name == "scales" && flags.also_for.empty()) fail("'--to scales' needs --also-for CHECKPOINT");
  if (!exporter.writes_folder && (flags.in_place || flags.copy))
    fail("'--to " + flags.target + "' writes one file: --in-place and --copy apply to folders only");
  if (flags.in_place && (flags.copy || !flags.out.empty()))
    fail("--in-place modifies the model's folder: it cannot be combined with --out or --copy");
  if (flags.out.empty() && !flags.in_place && !flags.dry_run) fail("--out is required; see 'kvcal export --help'");
}

ExportOptions options_of(const ExportFlags& flags) {
  ExportOptions options;
  options.query = !flags.no_query;
  options.tensor_parallel = flags.tensor_parallel;
  options.nvfp4 = flags.nvfp4;
  options.allow_keep16 = flags.allow_keep16;
  options.replace_scales = flags.replace_scales;
  read_skip_layers(flags.skip_layers, options);
  for (const std::string& folder : flags.also_for) options.also_for.push_back(identify_model(folder));
  return options;
}

void check_granularity(const Artifact& artifact, const std::string& wanted) {
  if (wanted.empty() || granularity_from_name(wanted) == artifact.quantization.granularity) return;
  fail("the scale file has granularity " + std::string(name_of(artifact.quantization.granularity)) +
       ", and so do its assessments; solve again: 'kvcal solve STATS --granularity " + wanted + "'");
}

Json report_json(const OverlayReport& report) {
  return {{"hard_linked", report.hard_linked},
          {"symlinked", report.symlinked},
          {"copied", report.copied},
          {"written", report.written},
          {"left_out", report.left_out}};
}

Json scales_json(const ExportPlan& plan) {
  Json scales = Json::array();
  for (const PlannedScale& s : plan.scales) {
    Json values = Json::array();
    for (const float value : s.values) values.push_back(json_number(value));
    scales.push_back({{"layer", s.layer}, {"site", s.site}, {"name", s.name}, {"values", values}});
  }
  return scales;
}

void print_json(const ExportFlags& flags, const ExportInput& input, const ExportPlan& plan,
                const OverlayReport& report) {
  const Json json = {{"target", flags.target},          {"out", input.out.string()},
                     {"written", !flags.dry_run},       {"in_place", flags.in_place},
                     {"files", report_json(report)},    {"commands", plan.serving.commands},
                     {"notes", plan.serving.notes},     {"skip_layers", skipped_layers(input.artifact, input.options)},
                     {"snippet", plan.serving.snippet}, {"scales", scales_json(plan)}};
  std::cout << json_output(json);
}

std::string files_text(const ExportFlags& flags, const OverlayReport& report) {
  if (flags.dry_run) return "nothing was written (--dry-run)\n";
  std::string text = std::to_string(report.written) + " file(s) written";
  const auto add = [&](size_t n, const char* what) {
    if (n > 0) text += ", " + std::to_string(n) + " " + what;
  };
  add(report.hard_linked, "hard-linked to the model's files");
  add(report.symlinked, "symlinked (do not move the model)");
  add(report.copied, "copied");
  text += "; read back and verified\n";
  for (const std::string& line : report.left_out) text += "left out: " + line + "\n";
  return text;
}

void print_text(const ExportFlags& flags, const ExportInput& input, const ExportPlan& plan,
                const OverlayReport& report) {
  const std::string count = plan.scales.empty() ? "" : std::to_string(plan.scales.size()) + " scales, ";
  std::cout << quoted(input.out.string()) << ": " << count << "target " << flags.target << ", "
            << files_text(flags, report);
  if (!plan.serving.commands.empty()) std::cout << "\nserve:\n";
  for (const std::string& command : plan.serving.commands) std::cout << "  " << command << '\n';
  if (!plan.serving.notes.empty()) std::cout << "\nnote:\n";
  for (const std::string& note : plan.serving.notes) std::cout << "- " << note << '\n';
  if (plan.serving.snippet.empty()) return;
  std::cout << "\nto see the scales that the server really uses:\n";
  std::stringstream lines(plan.serving.snippet);
  for (std::string line; std::getline(lines, line);) std::cout << (line.empty() ? "" : "  ") << line << '\n';
}

Exit undo(const ExportFlags& flags) {
  if (flags.model.empty()) fail("--undo needs --model, the folder that was modified in place");
  const std::string target = undo_export(flags.model, flags.force);
  if (flags.json)
    std::cout << json_output({{"undone", target}, {"model", flags.model}});
  else
    std::cout << quoted(flags.model) << ": the export for " << target << " was undone\n";
  return Exit::Done;
}

Exit run(const ExportFlags& flags) {
  if (flags.undo) return undo(flags);
  const Exporter& exporter = find_exporter(flags.target);
  if (flags.scales.empty()) fail("export: SCALES is required; see 'kvcal export --help'");
  if (flags.model.empty()) fail("export: --model is required; see 'kvcal export --help'");
  check_usage(flags, exporter);
  const std::string scale_text = read_file(flags.scales, kMostScaleBytes);
  const Artifact artifact = read_artifact(flags.scales);
  check_granularity(artifact, flags.granularity);
  const ModelIdentity model = identify_model(flags.model);
  check_fits(artifact, model);
  const Carrier carrier = carrier_of(read_config(model.folder).config, model.folder);
  const ExportOptions options = options_of(flags);
  if (exporter.name != "scales") check_fitness(artifact, options);
  const std::filesystem::path named = flags.out.empty() ? "OUT" : flags.out;
  const std::filesystem::path out = flags.in_place ? model.folder : named;
  const ExportInput input = {artifact, model, carrier, options, flags.scales, out};
  const ExportPlan plan = exporter.plan(input);
  OverlayReport report;
  if (!flags.dry_run)
    report = write_export(exporter, input, plan,
                          {.force = flags.force,
                           .copy = flags.copy,
                           .in_place = flags.in_place,
                           .scales_sha256 = sha256_hex(scale_text),
                           .tool_version = std::string("kvcal ") + build_info().version});
  (flags.json ? print_json : print_text)(flags, input, plan, report);
  return Exit::Done;
}

std::string targets_text() {
  std::string text = "Targets:\n";
  for (const Exporter& e : exporters())
    text += "  " + std::string(e.name) + std::string(13 - e.name.size(), ' ') + std::string(e.what) + "\n";
  return text;
}

void add_options(CLI::App& verb, ExportFlags& flags) {
  verb.add_option("SCALES", flags.scales, "kv-cache-scales.json");
  verb.add_option("--model", flags.model, "Checkpoint folder to serve; not modified unless --in-place")
      ->type_name("MODEL");
  verb.add_option("--to", flags.target, "Output format, see Targets below")->type_name("TARGET")->capture_default_str();
  verb.add_option("-o,--out", flags.out, "Folder or file to write");
  verb.add_option("--granularity", flags.granularity, "tensor or head: stop unless the scale file has this granularity")
      ->type_name("NAME");
  verb.add_flag("--no-query", flags.no_query, "Leave out query scales");
  verb.add_option("--skip-layers", flags.skip_layers,
                  "Layers whose cache vLLM keeps in the model's dtype: 3,7-9, or 'keep16' for all with that "
                  "assessment")
      ->type_name("LAYERS");
  verb.add_flag("--allow-keep16,--allow-inadequate", flags.allow_keep16,
                "Also write scales of layers that are better kept in 16 bits");
  verb.add_flag("--replace-scales", flags.replace_scales,
                "Replace KV scales already in the checkpoint (shards that contain them are rewritten)");
  verb.add_option("--tp", flags.tensor_parallel, "sglang-json: tensor-parallel size")->type_name("N");
  verb.add_flag("--nvfp4", flags.nvfp4, "modelopt: global scales of an NVFP4 cache");
  verb.add_option("--also-for", flags.also_for,
                  "scales: another copy of the same model, such as a quantized one (repeatable)")
      ->type_name("CHECKPOINT")
      ->take_all();
  verb.add_flag("--copy", flags.copy, "Copy weight files instead of linking them");
  verb.add_flag("--in-place", flags.in_place, "Modify the model's folder itself, atomically");
  verb.add_flag("--undo", flags.undo, "Undo an --in-place export");
  verb.add_flag("--force", flags.force, "Replace an earlier export");
  verb.add_flag("--dry-run", flags.dry_run, "Check and print only; write nothing");
  verb.add_flag("--json", flags.json, "One JSON object on standard output");
}

}  // namespace

void add_export(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App* verb = app.add_subcommand("export", "Write scales in the form a server loads, and print how to serve them");
  add_options(*verb, *flags);
  verb->footer(
      targets_text() +
      "\n"
      "Weight files are linked, other files copied; config.json changes only where it describes the cache. The\n"
      "result is read back and compared before it gets its final name.\n"
      "\n"
      "Examples:\n"
      "  kvcal export kv-cache-scales.json --model ./Qwen3-0.6B -o ./Qwen3-0.6B-fp8kv\n"
      "  kvcal export kv-cache-scales.json --model ./Llama-FP8 --in-place --no-query\n"
      "  kvcal export --undo --model ./Llama-FP8\n"
      "  kvcal export s.json --model ./Qwen3-8B --to sglang-json --tp 2 -o tp2.json\n"
      "  kvcal export s.json --model ./Llama --to scales --also-for ./Llama-AWQ -o both.json");
  verb->callback([flags, &chosen] { chosen = [flags] { return run(*flags); }; });
}

}  // namespace kvcal
