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
#include "base/read_file.h"
#include "build_info.h"
#include "check/artifact_checks.h"
#include "hub_cache.h"
#include "solve/solution.h"
#include "stats/statistics_file.h"
#include "terminal.h"
#include "validate/output.h"
#include "validate/validate_evaluation.h"
#include "validate/validate_folder.h"
#include "verbs.h"

namespace kvcal {
namespace {

struct ValidateFlags {
  std::string file, model, scales, statistics, format = "text";
  std::vector<std::string> servers;
  int64_t n_ranks = 0;
  bool json = false, strict = false, list_rules = false;
};

/// A safetensors container: eight bytes of length, then a JSON object. Told by the name when it is cut too short.
bool is_statistics(const std::string& file, const std::string& text) {
  return std::filesystem::path(file).extension() == ".kvstats" || (text.size() > 8 && text[0] != '{' && text[8] == '{');
}

/// Statistics have the reader's own checks; what can be said about their numbers is said of the scales they give.
Report validate_statistics(const std::string& file, const std::string& schema, const ModelIdentity* model) {
  Report report;
  std::optional<Statistics> statistics;
  report.evaluated({"T01"});
  try {
    statistics = read_statistics(file);
  } catch (const Error& e) {
    report.add("T01", "", e.what());
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

Report report_on(const std::string& file, const std::string& schema, const ModelIdentity* model) {
  // One byte more than is accepted, so that a file that is too large becomes a finding.
  std::error_code ignored;
  const uintmax_t bytes = std::filesystem::file_size(file, ignored);
  if (std::filesystem::path(file).extension() == ".kvstats" || (!ignored && bytes > kMostArtifactBytes)) {
    if (!std::filesystem::exists(file, ignored)) read_file(file, 1);  // says so
    return validate_statistics(file, schema, model);
  }
  const std::string text = read_file(file, kMostArtifactBytes);
  return is_statistics(file, text) ? validate_statistics(file, schema, model) : validate_artifact(text, schema, model);
}

void check_format(const std::string& format) {
  const std::vector<std::string> known = {"text", "json", "sarif", "github"};
  if (std::find(known.begin(), known.end(), format) == known.end()) fail_unknown("format", format, known);
}

void print(const Validated& result, const std::string& format) {
  if (format == "json")
    write_json(json_report(result));
  else if (format == "sarif")
    write_json(sarif_report(result, {build_info().version, build_info().site}));
  else
    write_lines(format == "github" ? github_report(result) : text_report(result));
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
  FolderChecks checks{servers_of(flags), flags.scales, flags.statistics, flags.n_ranks};
  if (checks.servers.empty()) checks.servers = {verified_server(ServerKind::Vllm), verified_server(ServerKind::Sglang)};
  FolderReport found = validate_folder(flags.file, schema, checks);
  return {flags.file, std::move(found.report), flags.strict, std::move(found.served)};
}

/// Nothing for a file that is no evaluation.
std::optional<Validated> validated_evaluation(const ValidateFlags& flags) {
  std::error_code ignored;
  const uintmax_t bytes = std::filesystem::file_size(flags.file, ignored);
  if (ignored || bytes > kMostArtifactBytes) return std::nullopt;
  const std::string text = read_file(flags.file, kMostArtifactBytes);
  if (!is_evaluation_text(text)) return std::nullopt;
  if (!flags.statistics.empty() || !flags.servers.empty() || flags.n_ranks > 0)
    fail("validate: --stats, --server and --tp are not for evaluations, and " + quoted(flags.file) + " is one");
  std::optional<ModelIdentity> model;
  if (!flags.model.empty()) model = identify_model(flags.model);
  const EvaluationChecks checks = {model ? &*model : nullptr, flags.scales, flags.file};
  return Validated{flags.file, validate_evaluation(text, checks), flags.strict, {}};
}

Validated validated_file(const ValidateFlags& flags, const std::string& schema) {
  if (auto evaluation = validated_evaluation(flags)) return std::move(*evaluation);
  if (!flags.scales.empty() || !flags.statistics.empty())
    fail("validate: --scales and --stats need a checkpoint folder as FILE, --scales also takes an evaluation; " +
         quoted(flags.file) + " is not a folder");
  std::optional<ModelIdentity> model;
  if (!flags.model.empty()) model = identify_model(flags.model);
  const std::vector<Server> servers = servers_of(flags);
  Report report = report_on(flags.file, schema, model ? &*model : nullptr);
  const bool asks_more = !servers.empty() || flags.n_ranks > 0;
  if (asks_more && !report.has_errors() && std::filesystem::path(flags.file).extension() != ".kvstats") {
    const std::string text = read_file(flags.file, kMostArtifactBytes);
    check_as_side_file(text, servers, report);
    if (flags.n_ranks > 0) check_ranks(text, flags.n_ranks, report);
  }
  return {flags.file, std::move(report), flags.strict, {}};
}

Exit run(const ValidateFlags& flags) {
  const std::string format = flags.json ? "json" : flags.format;
  check_format(format);
  if (flags.list_rules) {
    if (format == "json")
      write_json(rules_json());
    else
      write_lines(rules_text());
    return Exit::Done;
  }
  if (flags.file.empty()) fail("validate: FILE is required; see 'kvcal validate --help'");
  const std::string schema(artifact_schema());
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(flags.file, ignored);
  const Validated result = folder ? validated_folder(flags, schema) : validated_file(flags, schema);
  print(result, format);
  return result.passed() ? Exit::Done : Exit::Findings;
}

}  // namespace

void add_validate(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<ValidateFlags>();
  CLI::App* verb =
      app.add_subcommand("validate", "Check a scale file, statistics, an evaluation or a checkpoint with KV scales");
  verb->add_option("FILE", flags->file,
                   "kv-cache-scales.json, a statistics file, evaluation.json, or a checkpoint folder with KV scales");
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
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  verb->add_option("--format", flags->format, "text, json, sarif (code scanning), github (annotations)")
      ->capture_default_str();
  verb->add_flag("--json", flags->json, "Same as --format json");
  verb->add_flag("--strict", flags->strict, "Treat warnings as errors");
  verb->add_flag("--list-rules", flags->list_rules, "Print the rules: id, severity, meaning");
  verb->footer(
      "A rule whose inputs are missing is reported as 'not evaluated', never as passed. Exit code 0: no errors (with\n"
      "--strict: no warnings either); 1: errors, also for truncated files or files that are not JSON; 2: the file\n"
      "cannot be read.\n"
      "\n"
      "Examples:\n"
      "  kvcal validate kv-cache-scales.json --model ./Qwen3-0.6B && echo fit to serve\n"
      "  kvcal validate kv-cache-scales.json --strict --format github\n"
      "  kvcal validate run.kvstats --json | jq '.findings[].rule'\n"
      "  kvcal validate ./Qwen3-0.6B-kv --scales kv-cache-scales.json --server vllm@0.33\n"
      "  kvcal validate ./third-party-fp8-kv --stats run.kvstats\n"
      "  kvcal validate evaluation.json --model ./Qwen3-0.6B --scales kv-cache-scales.json");
  verb->callback([flags, &chosen] {
    chosen = [flags] {
      flags->model = model_folder(flags->model);
      if (names_model(flags->file)) flags->file = model_folder(flags->file);
      return run(*flags);
    };
  });
}

}  // namespace kvcal
