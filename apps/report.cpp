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
#include "report/evidence_page.h"
#include "report/markdown.h"
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
  bool evidence = false, markdown = false, force = false, quiet = false;
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
    return {std::nullopt, read_artifact(flags.input)};
  }
  const SolveOptions options = flags.solve.resolve();
  Statistics statistics =
      reading(FileKind::Statistics, kExpected, flags.input, [&] { return read_statistics(flags.input); });
  Artifact artifact = make_artifact(statistics, solve(statistics, options));
  return {std::move(statistics), std::move(artifact), options};
}

/// The SHA-256 of the page's scale file, or of the one that these statistics and options give.
std::string sha256_of_scales(const ReportFlags& flags, const Opened& opened) {
  return sha256_hex(opened.statistics ? artifact_text(opened.artifact) : read_artifact_text(flags.input));
}

std::optional<Evaluated> evaluated_in(const ReportFlags& flags, const Opened& opened) {
  if (flags.evaluation.empty()) return std::nullopt;
  return evaluated(read_evaluation(flags.evaluation), flags.evaluation,
                   {opened.artifact, flags.input, sha256_of_scales(flags, opened), !opened.statistics});
}

/// The page or the summary.
std::string report_text(const ReportFlags& flags) {
  const std::string version = std::string("kvcal ") + build_info().version;
  if (flags.evidence)
    return evidence_page(read_artifact_text(flags.input), read_evaluation_text(flags.evaluation), version);
  const Opened opened = open(flags);
  ReportInput input = {opened.artifact, opened.statistics ? &*opened.statistics : nullptr,
                       std::filesystem::path(flags.input).filename().string(), version, opened.options};
  const std::optional<Evaluated> found = evaluated_in(flags, opened);
  input.evaluation = found ? &found->evaluation : nullptr;
  input.evaluated_as = found ? found->as : "";
  return flags.markdown ? report_markdown(input) : report_html(input);
}

void check_flags(const ReportFlags& flags) {
  if ((flags.evidence || flags.markdown) && flags.evaluation.empty())
    fail(std::string(flags.evidence ? "--evidence" : "--markdown") + " needs --evaluation");
  const bool of_scales = is_scale_file(flags.input);
  if (of_scales && !flags.solving_option.empty())
    fail(flags.solving_option + " applies to statistics files; " + quoted(flags.input) + " is a scale file");
  if (flags.evidence && !of_scales) expect_kind(FileKind::ScaleFile, kExpectedScales, flags.input);
}

Exit run(const ReportFlags& flags) {
  check_flags(flags);
  const Existing existing = flags.force ? Existing::Replace : Existing::Refuse;
  check_output(flags.out, existing);
  const std::string page = report_text(flags);
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
  verb->add_flag("--evidence", flags->evidence,
                 "Carry the scale file and the evaluation in the page, for reviewers and for validate");
  verb->add_flag("--markdown", flags->markdown,
                 "Write a short summary of the evaluation, for a pull request or a model card")
      ->excludes("--evidence");
  verb->add_option("-o,--out", flags->out, "File to write; - prints it (default: report.html, report.md)")
      ->type_name("FILE");
  verb->add_flag("--force", flags->force, "Overwrite an existing file");
  verb->add_flag("-q,--quiet", flags->quiet, "Print errors only");
  const std::vector<CLI::Option*> own = verb->get_options();
  flags->solve.add_to(*verb);
  verb->footer(
      "Examples:\n"
      "  kvcal report run.kvstats -o report.html\n"
      "  kvcal report run.kvstats --policy pow2 -o pow2.html\n"
      "  kvcal report kv-cache-scales.json -o report.html\n"
      "  kvcal report kv-cache-scales.json --evaluation evaluation.json --evidence");
  verb->callback([flags, own, verb, &chosen] {
    for (const CLI::Option* option : verb->get_options())
      if (option->count() > 0 && std::find(own.begin(), own.end(), option) == own.end())
        flags->solving_option = option->get_name();
    flags->solve.refuse_idle_options(*verb);
    if (flags->markdown && verb->get_option("--out")->count() == 0) flags->out = "report.md";
    refuse_idle_force(*verb, flags->out);
    chosen = [flags] { return run(*flags); };
  });
}

}  // namespace kvcal
