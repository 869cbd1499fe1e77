// kvcal report S -o report.html: one self-contained page, from statistics or from a scale file.
#include "report/report.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>

#include "artifact/make_artifact.h"
#include "base/file_kind.h"
#include "base/sha256.h"
#include "build_info.h"
#include "idle_options.h"
#include "output_file.h"
#include "solve/solution.h"
#include "solve_flags.h"
#include "stats/statistics_file.h"
#include "terminal.h"
#include "verbs.h"

namespace kvcal {
namespace {

struct ReportFlags {
  std::string input;
  std::filesystem::path out = "report.html";
  std::string evaluation;
  bool force = false, quiet = false;
  SolveFlags solve;
  std::string solving_option;  // the first of them that was given
};

constexpr const char* kExpected = "statistics (calibrate --stats) or a scale file (calibrate -o)";

bool is_scale_file(const std::filesystem::path& path) {
  const FileKind kind = kind_of_file(path);
  return kind == FileKind::ScaleFile || (kind == FileKind::Unknown && path.extension() == ".json");
}

struct Opened {
  std::optional<Statistics> statistics;
  Artifact artifact;
  SolveOptions options{};
};

Opened open(const ReportFlags& flags) {
  if (is_scale_file(flags.input)) {
    if (!flags.solving_option.empty())
      fail(flags.solving_option + " applies to statistics files; " + quoted(flags.input) + " is a scale file");
    return {std::nullopt, read_artifact(flags.input)};
  }
  const SolveOptions options = flags.solve.resolve();
  Statistics statistics =
      reading(FileKind::Statistics, kExpected, flags.input, [&] { return read_statistics(flags.input); });
  Artifact artifact = make_artifact(statistics, solve(statistics, options));
  return {std::move(statistics), std::move(artifact), options};
}

struct Evaluated {
  SavedEvaluation evaluation;
  std::string as;  // the variant with the scales of the page; "": none is known to have them
};

/// The SHA-256 of the page's scale file, or of the one that these statistics and options give.
std::string sha256_of_scales(const ReportFlags& flags, const Artifact& artifact) {
  return sha256_hex(is_scale_file(flags.input) ? read_artifact_text(flags.input) : artifact_text(artifact));
}

/// Of this model, and of these scales where a scale file is shown and the evaluation names some.
Evaluated evaluation_for(const ReportFlags& flags, const Artifact& artifact) {
  SavedEvaluation evaluation = read_evaluation(flags.evaluation);
  const auto not_of = [&](const std::string& what, const std::string& is, const std::string& expected) {
    fail(quoted(flags.evaluation) + ": is for other " + what + " than " + quoted(flags.input) + ": " +
         is.substr(0, 12) + ", expected " + expected.substr(0, 12));
  };
  if (evaluation.model.weights_fingerprint != artifact.model.weights_fingerprint)
    not_of("weights", evaluation.model.weights_fingerprint, artifact.model.weights_fingerprint);
  const std::string sha256 = sha256_of_scales(flags, artifact);
  for (const auto& [name, of] : evaluation.files)
    if (of == sha256) return {std::move(evaluation), name};
  if (is_scale_file(flags.input) && !evaluation.sha256_of("file").empty())
    not_of("scales", evaluation.sha256_of("file"), sha256);
  return {std::move(evaluation), ""};
}

Exit run(const ReportFlags& flags) {
  const Existing existing = flags.force ? Existing::Replace : Existing::Refuse;
  check_output(flags.out, existing);
  const Opened opened = open(flags);
  ReportInput input = {opened.artifact, opened.statistics ? &*opened.statistics : nullptr,
                       std::filesystem::path(flags.input).filename().string(),
                       std::string("kvcal ") + build_info().version, opened.options};
  std::optional<Evaluated> evaluated;
  if (!flags.evaluation.empty()) evaluated = evaluation_for(flags, opened.artifact);
  input.evaluation = evaluated ? &evaluated->evaluation : nullptr;
  input.evaluated_as = evaluated ? evaluated->as : "";
  const std::string page = report_html(input);
  write_output(flags.out, page, existing);
  if (!flags.quiet) say("kvcal: ", output_name(flags.out), ", ", (page.size() + 1023) / 1024, " KiB");
  return Exit::Done;
}

}  // namespace

void add_report(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* verb = app.add_subcommand("report", "Write an HTML report with plots of the measurements and assessments");
  verb->add_option("FILE", flags->input, "Statistics (calibrate --stats), or a scale file (.json)")->required();
  verb->add_option("--evaluation", flags->evaluation, "Show what kvcal evaluate found, too")->type_name("FILE");
  verb->add_option("-o,--out", flags->out, "HTML file to write; - prints it (default: report.html)")->type_name("FILE");
  verb->add_flag("--force", flags->force, "Overwrite an existing file");
  verb->add_flag("-q,--quiet", flags->quiet, "Print errors only");
  const std::vector<CLI::Option*> own = verb->get_options();
  flags->solve.add_to(*verb);
  verb->footer(
      "Examples:\n"
      "  kvcal report run.kvstats -o report.html\n"
      "  kvcal report run.kvstats --policy pow2 -o pow2.html\n"
      "  kvcal report kv-cache-scales.json -o report.html\n"
      "  kvcal report kv-cache-scales.json --evaluation evaluation.json");
  verb->callback([flags, own, verb, &chosen] {
    for (const CLI::Option* option : verb->get_options())
      if (option->count() > 0 && std::find(own.begin(), own.end(), option) == own.end())
        flags->solving_option = option->get_name();
    flags->solve.refuse_idle_options(*verb);
    refuse_idle_force(*verb, flags->out);
    chosen = [flags] { return run(*flags); };
  });
}

}  // namespace kvcal
