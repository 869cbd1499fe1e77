// kvcal export SCALES: what a server loads, and the command that serves it.
#include "export.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <memory>
#include <sstream>

#include "artifact/json_text.h"
#include "base/atomic_folder.h"
#include "build_info.h"
#include "export/serve.h"
#include "export_pack.h"
#include "hub_cache.h"
#include "idle_options.h"
#include "output_file.h"
#include "terminal.h"
#include "verbs.h"

namespace kvcal {
namespace {

struct ExportFlags {
  ExportRequest request;
  std::string skip_layers;
  std::vector<std::filesystem::path> include;
  bool no_query = false, undo = false, json = false;
};

Json report_json(const OverlayReport& report) {
  return {{"hard_linked", report.hard_linked}, {"symlinked", report.symlinked}, {"copied", report.copied},
          {"written", report.written},         {"left_out", report.left_out},   {"from_outside", report.from_outside}};
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

void print_json(const ExportRequest& request, const ExportResult& done) {
  const Serving& serving = done.plan.serving;
  Json json = {{"target", request.target},
               {"out", done.out.string()},
               {"written", !request.plan_only},
               {"in_place", request.write.in_place},
               {"files", report_json(done.report)},
               {"commands", serving.commands},
               {"notes", serving.notes},
               {"skip_layers", done.skipped_layers},
               {"snippet", serving.snippet},
               {"scales", scales_json(done.plan)}};
  if (!done.evaluation_sha256.empty()) json["evaluation_sha256"] = done.evaluation_sha256;
  write_json(json);
}

std::string files_text(bool was_written, const OverlayReport& report) {
  if (!was_written) return "nothing was written (--dry-run)";
  std::string text = std::to_string(report.written) + " file(s) written";
  const auto add = [&](size_t n, const char* what) {
    if (n > 0) text += ", " + std::to_string(n) + " " + what;
  };
  add(report.hard_linked, "hard-linked to the model's files");
  add(report.symlinked, "symlinked (do not move the model)");
  add(report.copied, "copied");
  return text + "; read back and verified";
}

void print_text(const ExportRequest& request, const ExportResult& done) {
  const ExportPlan& plan = done.plan;
  const std::string count = plan.scales.empty() ? "" : std::to_string(plan.scales.size()) + " scales, ";
  write_line(quoted(done.out.string()), ": ", count, "target ", request.target, ", ",
             files_text(!request.plan_only, done.report));
  if (!request.plan_only) {
    for (const std::string& line : done.report.left_out) write_line("left out: ", line);
    for (const std::string& line : done.report.from_outside) write_line("from outside the model's folder: ", line);
  }
  if (!plan.serving.commands.empty()) {
    write_line();
    write_line("serve:");
  }
  for (const std::string& command : plan.serving.commands) write_line("  ", command);
  if (!plan.serving.notes.empty()) {
    write_line();
    write_line("note:");
  }
  for (const std::string& note : plan.serving.notes) write_line("- ", note);
  if (plan.serving.snippet.empty()) return;
  write_line();
  write_line("to see the scales that the server really uses:");
  std::stringstream lines(plan.serving.snippet);
  for (std::string line; std::getline(lines, line);) write_line(line.empty() ? "" : "  ", line);
}

Exit undo(const ExportRequest& request, bool json) {
  const std::string model = request.model.string();
  if (model.empty()) fail("--undo needs --model, the folder that was modified in place");
  const std::string target = undo_export(request.model, request.write.force);
  if (json)
    write_json({{"undone", target}, {"model", model}});
  else
    write_line(quoted(model), ": the export for ", target, " was undone");
  return Exit::Done;
}

/// On standard output, once it was read back like any other file.
Exit print_file(ExportRequest request) {
  if (find_exporter(request.target).writes_folder)
    fail("'--to " + request.target + "' writes a folder, expected its name as --out, which is -");
  const AtomicFolder scratch(std::filesystem::temp_directory_path() / "kvcal-export", Existing::Replace);
  request.out = scratch.path() / "file";
  write_bytes(export_scales(request).plan.files.front().text);
  return Exit::Done;
}

constexpr const char* kPack = "pack";

Exit run(const ExportFlags& flags) {
  if (flags.undo) return undo(flags.request, flags.json);
  ExportRequest request = flags.request;
  if (request.target != kPack) find_exporter(request.target);
  if (request.scales.empty()) fail("export: SCALES is required; see 'kvcal export --help'");
  if (request.model.empty()) fail("export: --model is required; see 'kvcal export --help'");
  if (request.target == kPack) {
    if (request.out.empty()) fail("--out is required; see 'kvcal export --help'");
    return export_pack(
        {request.scales, request.model, request.out, request.recipe, flags.include, "", request.write.force, {}});
  }
  if (!flags.include.empty()) fail("--include is for '--to pack', not for '--to " + request.target + "'");
  request.options.query = !flags.no_query;
  request.write.tool_version = std::string("kvcal ") + build_info().version;
  read_skip_layers(flags.skip_layers, request.options);
  if (is_standard_output(request.out) && !request.plan_only) {
    if (flags.json) fail("--json and --out - both print to standard output, expected one of them");
    return print_file(std::move(request));
  }
  return run_export(request, flags.json);
}

std::string targets_text() {
  std::string text = "Targets:\n";
  for (const Exporter& e : exporters())
    text += "  " + std::string(e.name) + std::string(13 - e.name.size(), ' ') + std::string(e.what) + "\n";
  return text +
         "  pack         scale file, recipe or evaluation.json beside it, their page and --include in a folder without "
         "weights, for 'kvcal apply'\n";
}

void add_options(CLI::App& verb, ExportFlags& flags) {
  ExportRequest& request = flags.request;
  verb.add_option("SCALES", request.scales, "kv-cache-scales.json");
  verb.add_option("--model", request.model, "Checkpoint folder to serve; not modified unless --in-place")
      ->type_name("MODEL");
  verb.add_option("-o,--out", request.out, "Folder or file to write; - prints a file")->type_name("PATH");
  add_export_options(verb, request, flags.skip_layers);
  verb.add_option("--granularity", request.granularity,
                  "tensor, head or channel: stop unless the scale file has this granularity")
      ->type_name("NAME");
  verb.add_flag("--no-query", flags.no_query, "Leave out query scales");
  verb.add_option("--recipe", request.recipe,
                  "Evaluation whose recipe says which layers have which format (evaluate --choose)")
      ->type_name("EVALUATION");
  verb.add_option("--tp", request.options.tensor_parallel, "sglang-json: tensor-parallel size")->type_name("N");
  verb.add_flag("--nvfp4", request.options.nvfp4, "modelopt: global scales of an NVFP4 cache");
  verb.add_option("--also-for", request.also_for,
                  "scales: another copy of the same model, such as a quantized one (repeatable)")
      ->type_name("CHECKPOINT")
      ->take_all();
  verb.add_option("--include", flags.include, "pack: another file that goes with it: statistics, a page (repeatable)")
      ->type_name("FILE")
      ->take_all();
  verb.add_flag("--undo", flags.undo, "Undo an --in-place export");
  verb.add_flag("--json", flags.json, "One JSON object on standard output");
}

}  // namespace

void add_export_options(CLI::App& verb, ExportRequest& request, std::string& skip_layers) {
  verb.add_option("--to", request.target, "Target: the server or form that it is written for")
      ->type_name("TARGET")
      ->capture_default_str();
  verb.add_option("--skip-layers", skip_layers,
                  "Layers whose cache vLLM keeps in the model's dtype: 3,7-9, or 'keep16' for all with that "
                  "assessment; not with a recipe")
      ->type_name("LAYERS");
  verb.add_flag("--allow-keep16", request.options.allow_keep16,
                "Also write scales of layers that are better kept in 16 bits");
  verb.add_flag("--replace-scales", request.options.replace_scales,
                "Replace KV scales already in the checkpoint (shards that contain them are rewritten)");
  verb.add_flag("--copy", request.write.copy, "Copy weight files instead of linking them");
  verb.add_flag("--in-place", request.write.in_place,
                "Modify the model's folder itself, atomically; 'kvcal export --undo' undoes it");
  verb.add_flag("--force", request.write.force, "Replace an earlier export");
  verb.add_flag("--dry-run", request.plan_only, "Check and print only; write nothing");
}

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

Exit run_export(const ExportRequest& request, bool json) {
  (json ? print_json : print_text)(request, export_scales(request));
  return Exit::Done;
}

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
      "  kvcal export s.json --model ./Llama --to scales --also-for ./AWQ -o both.json\n"
      "  kvcal export s.json --model ./Qwen3-8B --recipe evaluation.json -o ./fp8kv");
  verb->callback([flags, verb, &chosen] {
    if (flags->undo)
      refuse_idle(
          *verb, "with --undo",
          {"SCALES", "--to", "--out", "--granularity", "--no-query", "--skip-layers", "--recipe", "--allow-keep16",
           "--replace-scales", "--tp", "--nvfp4", "--also-for", "--include", "--copy", "--in-place", "--dry-run"});
    if (flags->request.target == kPack)
      refuse_idle(*verb, "with --to pack",
                  {"--granularity", "--no-query", "--skip-layers", "--allow-keep16", "--replace-scales", "--tp",
                   "--nvfp4", "--also-for", "--copy", "--in-place", "--dry-run", "--json"});
    refuse_idle_force(*verb, flags->request.out);
    chosen = [flags] {
      if (!flags->request.write.in_place && !flags->undo)
        flags->request.model = model_folder(flags->request.model.string());
      for (auto& folder : flags->request.also_for) folder = model_folder(folder.string());
      return run(*flags);
    };
  });
}

}  // namespace kvcal
