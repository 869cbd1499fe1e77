// kvcal validate FILE: the gate that lets a scale file through or not.
#include "validate/validate.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>

#include "artifact/artifact.h"
#include "artifact/artifact_schema.h"
#include "artifact/make_artifact.h"
#include "base/counted.h"
#include "base/read_file.h"
#include "build_info.h"
#include "check/artifact_checks.h"
#include "export/pack.h"
#include "hub_cache.h"
#include "idle_options.h"
#include "report/evidence_page.h"
#include "solve/solution.h"
#include "stats/statistics_file.h"
#include "table.h"
#include "terminal.h"
#include "validate/output.h"
#include "validate/validate_evaluation.h"
#include "validate/validate_folder.h"
#include "validate_input.h"
#include "verbs.h"

namespace kvcal {
namespace {

struct ValidateFlags {
  std::string file, model, scales, statistics, format = "text";
  std::vector<std::string> servers;
  int64_t n_ranks = 0;
  bool json = false, strict = false, verbose = false, list_rules = false;
};

/// Statistics have the reader's own checks; what can be said about their numbers is said of the scales they give.
Report validate_statistics(const std::filesystem::path& file, const std::string& schema, const ModelIdentity* model) {
  Report report;
  std::optional<Statistics> statistics;
  report.evaluated({"T01"});
  try {
    statistics = read_statistics(file);
  } catch (const Error& e) {
    std::string what = e.what();
    const std::string own = quoted(file.string()) + ": ";
    if (what.starts_with(own)) what.erase(0, own.size());  // the report names the file
    report.add("T01", "", what);
    return report;
  }
  try {
    report = validate_artifact(artifact_text(make_artifact(*statistics, solve(*statistics, {}))), schema, model);
    for (Finding& f : report.findings) f.line = 0;  // of a file that nobody has
    check_rotation(*statistics, report);
    report.evaluated({"T01", "T02"});
  } catch (const Error& e) {
    report.add("T02", "", e.what());
  }
  return report;
}

void check_format(const std::string& format) {
  const std::vector<std::string> known = {"text", "json", "sarif", "github"};
  if (std::find(known.begin(), known.end(), format) == known.end()) fail_unknown("format", format, known);
}

Lines served_table(const std::vector<ServedScales>& served) {
  const std::vector<std::vector<std::string>> rows = served_rows(served);
  if (rows.empty()) return {};
  std::vector<Table::Column> columns;
  for (const std::string& title : rows[0])  // scales are not cut
    columns.push_back({title, columns.size() < 2 ? Table::Align::Left : Table::Align::Right});
  columns[1].spare = 1;  // the module, which the layer tells
  Table table(columns);
  for (size_t i = 1; i < rows.size(); ++i) table.add_row(rows[i]);
  return table.text();
}

void print(const Validated& result, const std::string& format) {
  if (format == "json")
    write_json(json_report(result));
  else if (format == "sarif")
    write_json(sarif_report(result, {build_info().version, build_info().site}));
  else if (format == "github")
    write_lines(github_report(result));
  else
    write_result(text_report(result, served_table(result.served)));
}

std::vector<Server> servers_of(const ValidateFlags& flags) {
  std::vector<Server> servers;
  for (const std::string& name : flags.servers) servers.push_back(parse_server(name));
  return servers;
}

Validated validated_folder(const ValidateFlags& flags, const std::string& schema) {
  if (!flags.model.empty()) fail("validate: --model is for scale files, and FILE is a checkpoint folder");
  if (!flags.scales.empty() && !flags.statistics.empty())
    fail("validate: --scales and --stats cannot be used together");
  FolderChecks checks{servers_of(flags), flags.scales, flags.statistics, flags.n_ranks, !flags.servers.empty()};
  if (checks.servers.empty()) checks.servers = {verified_server(ServerKind::Vllm), verified_server(ServerKind::Sglang)};
  FolderReport found = validate_folder(flags.file, schema, checks);
  return {flags.file, std::move(found.report), flags.strict, std::move(found.served), flags.verbose, true};
}

std::optional<ModelIdentity> model_of(const ValidateFlags& flags) {
  return flags.model.empty() ? std::nullopt : std::optional(identify_model(flags.model));
}

Report report_on_evaluation(const ValidateFlags& flags, const ValidateInput& input) {
  if (!flags.statistics.empty() || !flags.servers.empty() || flags.n_ranks > 0)
    fail("validate: --stats, --server and --tp are not for evaluations, and " + quoted(input.name()) + " is one");
  const std::optional<ModelIdentity> model = model_of(flags);
  const std::filesystem::path beside = input.is_piped() ? std::filesystem::path() : input.path();
  return validate_evaluation(input.text(), {model ? &*model : nullptr, flags.scales, beside});
}

Report report_on_scales(const ValidateFlags& flags, const std::string& text, const std::string& schema) {
  const std::optional<ModelIdentity> model = model_of(flags);
  const std::vector<Server> servers = servers_of(flags);
  Report report = validate_artifact(text, schema, model ? &*model : nullptr);
  if (report.has_errors()) return report;
  check_as_side_file(text, servers, report);
  if (flags.n_ranks > 0) check_ranks(text, flags.n_ranks, report);
  return report;
}

Report report_on_statistics(const ValidateFlags& flags, const ValidateInput& input, const std::string& schema) {
  if (!flags.servers.empty() || flags.n_ranks > 0)
    fail("validate: --server and --tp have no effect on statistics, and " + quoted(input.name()) +
         " are some; solve them, and check the scale file");
  const std::optional<ModelIdentity> model = model_of(flags);
  Report report = validate_statistics(input.path(), schema, model ? &*model : nullptr);
  report.not_evaluated({"S18", "V05", "V08"}, "applies to scale files only");
  return report;
}

/// Whether the pack is as it was packed, and for the model if there is one; nothing for one that is not.
std::optional<Pack> sound_pack(const std::string& folder, const std::optional<ModelIdentity>& model, Report& report) {
  report.evaluated({"A07"});
  try {
    Pack pack = read_pack(folder);
    if (model) check_is_for(pack, *model);
    return pack;
  } catch (const Error& e) {
    std::string what = e.what();
    const std::string own = quoted(folder) + ": ";
    if (what.starts_with(own)) what.erase(0, own.size());  // the report names the pack
    report.add("A07", "", what);
    return std::nullopt;
  }
}

/// Whether the page shows what its files say: made again of them it is the same.
void check_page(const std::string& page, const std::vector<CarriedFile>& files, Report& report) {
  const std::string here = std::string("kvcal ") + build_info().version, writer = writer_of(page);
  report.evaluated({"A08"});
  if (writer != here)
    return report.add("A08", "",
                      (writer.empty() ? "it does not say what wrote it" : "written by " + printable(writer, 40)) +
                          ": what it shows cannot be compared by " + here);
  try {
    if (evidence_page(files[0].text, files[1].text, here) != page)
      report.add("A08", "", "the page shows something else than the files that it carries");
  } catch (const Error& e) {
    report.add("A08", "", e.what());
  }
}

/// A page that carries files: they are the pack's, and it shows what they say. A pack outlives the program that made
/// its page; one that carries none is the publisher's own.
Report report_on_page(const Pack& pack, const std::string& scales, const std::string& evaluation) {
  Report report;
  const std::string page = ValidateInput(pack.page().string()).text();
  std::vector<CarriedFile> files;
  try {
    files = carried_files(page);
  } catch (const Error& e) {
    report.add("A08", "", e.what());
  }
  if (files.empty()) return report;
  report.evaluated({"A08"});
  for (const CarriedFile& file : files)
    if (file.text != (file.name == kCarriedScales ? scales : evaluation))
      report.add("A08", "", "the " + quoted(file.name) + " that it carries is not the pack's");
  if (!report.has_errors() && files.size() == 2 && writer_of(page) == std::string("kvcal ") + build_info().version)
    check_page(page, files, report);
  return report;
}

/// The scale file and evaluation of a pack are checked like any, and its page against them.
Validated validated_pack(const ValidateFlags& flags, const std::string& schema) {
  if (!flags.scales.empty() || !flags.statistics.empty())
    fail("validate: --scales and --stats are not for packs, and " + quoted(flags.file) + " is one");
  const std::optional<ModelIdentity> model = model_of(flags);
  Report report;
  const std::optional<Pack> pack = sound_pack(flags.file, model, report);
  if (!pack) return {flags.file, std::move(report), flags.strict, {}, flags.verbose};
  const ValidateInput scales(pack->scales().string());
  report.merge(report_on_scales(flags, scales.text(), schema), pack->scales().string());
  if (!report.has_errors())
    if (const Artifact artifact = artifact_from_json(parse_json(scales.text()));
        artifact.quantization.dtype == "fp8_e4m3")
      check_at_one(artifact, report);
  const std::string evaluation = pack->has_evaluation ? ValidateInput(pack->evaluation().string()).text() : "";
  if (pack->has_evaluation)
    report.merge(validate_evaluation(evaluation, {model ? &*model : nullptr, pack->scales(), pack->evaluation()}),
                 pack->evaluation().string());
  if (pack->has_page) report.merge(report_on_page(*pack, scales.text(), evaluation), pack->page().string());
  return {flags.file, std::move(report), flags.strict, {}, flags.verbose};
}

/// Of a file that stands in the page: no line of the page is its line.
Report in_page(Report report, const std::string& name) {
  for (Finding& f : report.findings) {
    f.path = name + (f.path.empty() ? "" : ": " + f.path);
    f.line = 0;
  }
  return report;
}

/// The scale file and the evaluation that a page carries.
std::vector<CarriedFile> files_in(const ValidateInput& input) {
  std::vector<CarriedFile> files = while_doing(quoted(input.name()), [&] { return carried_files(input.text()); });
  if (files.empty())
    fail(quoted(input.name()) + " is a page that carries no files to check; write it with kvcal report --evidence");
  if (files.size() != 2 || files[0].name != kCarriedScales || files[1].name != kCarriedEvaluation)
    fail(quoted(input.name()) + ": carries " + counted(static_cast<int64_t>(files.size()), "file") + ", " +
         quoted(files[0].name) + " first, expected " + quoted(std::string(kCarriedScales)) + " and " +
         quoted(std::string(kCarriedEvaluation)));
  return files;
}

/// The files that a page carries are checked like any, and the page against them.
Validated validated_page(const ValidateFlags& flags, const std::string& schema, const ValidateInput& input) {
  if (!flags.statistics.empty() || !flags.scales.empty())
    fail("validate: --stats and --scales are not for pages, and " + quoted(input.name()) + " is one");
  const std::vector<CarriedFile> files = files_in(input);
  const std::optional<ModelIdentity> model = model_of(flags);
  Report report;
  report.merge(in_page(report_on_scales(flags, files[0].text, schema), files[0].name), "");
  report.merge(in_page(validate_evaluation(files[1].text, {model ? &*model : nullptr, {}, {}}), files[1].name), "");
  if (!report.has_errors()) check_page(input.text(), files, report);
  return {input.name(), std::move(report), flags.strict, {}, flags.verbose};
}

Validated validated_file(const ValidateFlags& flags, const std::string& schema) {
  const ValidateInput input(flags.file);
  if (input.kind() == FileKind::ReportPage) return validated_page(flags, schema, input);
  const bool is_evaluation = input.kind() == FileKind::Evaluation;
  if (!is_evaluation && (!flags.statistics.empty() || !flags.scales.empty()))
    fail("validate: --scales and --stats need a checkpoint folder as FILE, --scales also takes an evaluation; " +
         quoted(input.name()) + " is not a folder");
  return {input.name(),
          is_evaluation                          ? report_on_evaluation(flags, input)
          : input.kind() == FileKind::Statistics ? report_on_statistics(flags, input, schema)
                                                 : report_on_scales(flags, input.text(), schema),
          flags.strict,
          {},
          flags.verbose};
}

Exit run(const ValidateFlags& flags) {
  const std::string format = flags.json ? "json" : flags.format;
  check_format(format);
  if (flags.list_rules) {
    if (format == "json")
      write_json(rules_json());
    else
      write_result(rules_text());
    return Exit::Done;
  }
  if (flags.file.empty()) fail("validate: FILE is required; see 'kvcal validate --help'");
  const std::string schema(artifact_schema());
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(flags.file, ignored);
  const Validated result = !folder               ? validated_file(flags, schema)
                           : is_pack(flags.file) ? validated_pack(flags, schema)
                                                 : validated_folder(flags, schema);
  print(result, format);
  return result.passed() ? Exit::Done : Exit::Findings;
}

}  // namespace

void add_validate(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<ValidateFlags>();
  CLI::App* verb =
      app.add_subcommand("validate", "Check a scale file, statistics, an evaluation or a checkpoint with KV scales");
  verb->add_option("FILE", flags->file,
                   "kv-cache-scales.json, a statistics file, evaluation.json ('-': standard input), a page of 'report "
                   "--evidence', a checkpoint folder with KV scales, or a pack");
  verb->add_option("--model", flags->model, "Checkpoint folder that the file is for")->type_name("MODEL");
  verb->add_option("--server", flags->servers,
                   "Server to check for, such as vllm@0.33 or sglang@0.5.23 (default for folders: both)")
      ->type_name("SERVER");
  verb->add_option("--scales", flags->scales,
                   "Check that the folder contains the scales of this file, or that the evaluation was made with it")
      ->type_name("FILE");
  verb->add_option("--stats", flags->statistics, "Check the scales of the folder against these statistics")
      ->type_name("FILE");
  verb->add_option("--tp", flags->n_ranks, "Tensor-parallel size, to check per-head scales for")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  verb->add_option("--format", flags->format, "text, sarif (code scanning), github (annotations)")
      ->type_name("NAME")
      ->capture_default_str();
  verb->add_flag("--json", flags->json, "One JSON object on standard output");
  verb->add_flag("--strict", flags->strict, "Treat warnings as errors");
  verb->add_flag("-v,--verbose", flags->verbose, "Also list the rules that were not checked, and why");
  verb->add_flag("--list-rules", flags->list_rules, "Print the rules: id, severity, meaning");
  verb->footer(
      "A rule whose inputs are missing is not counted as checked: -v and --json list it. Exit code 0: no errors (with\n"
      "--strict: no warnings either); 1: errors, also for truncated files or files that are not JSON; 2: the file\n"
      "cannot be read.\n"
      "\n"
      "Examples:\n"
      "  kvcal validate kv-cache-scales.json --model ./Qwen3-0.6B && echo fit to serve\n"
      "  kvcal validate kv-cache-scales.json --strict --format github\n"
      "  kvcal validate run.kvstats --json | jq '.findings[].rule'\n"
      "  kvcal validate ./Qwen3-0.6B-kv --scales s.json --server vllm@0.33\n"
      "  kvcal validate ./third-party-fp8-kv --stats run.kvstats\n"
      "  kvcal validate evaluation.json --model ./Qwen3-0.6B --scales s.json");
  verb->callback([flags, verb, &chosen] {
    if (flags->list_rules)
      refuse_idle(*verb, "with --list-rules",
                  {"FILE", "--model", "--server", "--scales", "--stats", "--tp", "--strict", "--verbose"});
    if (flags->json) refuse_idle(*verb, "with --json", {"--format"});
    if (flags->json || flags->format != "text")
      refuse_idle(*verb, "on this format; text alone leaves something out", {"--verbose"});
    if (verb->get_option("FILE")->count() > 0) {  // a project's are about its own file
      if (verb->get_option("--model")->count() == 0) flags->model.clear();
      if (verb->get_option("--server")->count() == 0) flags->servers.clear();
    }
    chosen = [flags] {
      flags->model = model_folder(flags->model);
      flags->file = file_or_model(flags->file);
      return run(*flags);
    };
  });
}

}  // namespace kvcal
