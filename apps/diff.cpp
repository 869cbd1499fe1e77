// kvcal diff A B: what changed between two scale files, and whether it matters.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "artifact/difference.h"
#include "artifact/json_text.h"
#include "artifact/make_artifact.h"
#include "base/file_kind.h"
#include "base/number_text.h"
#include "solve/solution.h"
#include "stats/statistics_file.h"
#include "table.h"
#include "terminal.h"
#include "verbs.h"

namespace kvcal {
namespace {

struct DiffFlags {
  std::string a, b;
  double tolerance = 0;
  bool json = false;
};

bool is_statistics(const std::filesystem::path& file) {
  const FileKind kind = kind_of_file(file);
  return kind == FileKind::Statistics || (kind == FileKind::Unknown && file.extension() == ".kvstats");
}

Artifact read_scales(const std::string& file) {
  return reading(FileKind::ScaleFile, "a scale file or statistics", file, [&] { return read_artifact(file); });
}

Artifact solved(const std::string& file, const SolveOptions& options) {
  const Statistics statistics = read_statistics(file);
  return while_doing(quoted(file), [&] { return make_artifact(statistics, solve(statistics, options)); });
}

SolveOptions options_of(const ArtifactQuantization& q) {
  SolveOptions options{.policy = q.policy,
                       .format = q.dtype,
                       .granularity = q.granularity,
                       .headroom = q.headroom,
                       .max_model_len = q.max_model_len,
                       .limits = q.limits};
  if (q.percentile) options.percentile = *q.percentile;
  return options;
}

/// Statistics stand for the scales that the options of the other file give, or else the default ones.
std::pair<Artifact, Artifact> read_both(const DiffFlags& flags) {
  const bool solves_a = is_statistics(flags.a), solves_b = is_statistics(flags.b);
  if (solves_a && solves_b) return {solved(flags.a, {}), solved(flags.b, {})};
  if (solves_a) {
    Artifact b = read_scales(flags.b);
    return {solved(flags.a, options_of(b.quantization)), std::move(b)};
  }
  Artifact a = read_scales(flags.a);
  if (!solves_b) return {std::move(a), read_scales(flags.b)};
  Artifact b = solved(flags.b, options_of(a.quantization));
  return {std::move(a), std::move(b)};
}

std::string figure(double x) { return formatted("%.5g", x); }

/// "needed, fine"
std::string answers(const Assessment& a) { return std::string(name_of(a.scale)) + ", " + std::string(name_of(a.fp8)); }

Json answers_json(const Assessment& a) { return {{"scale", name_of(a.scale)}, {"fp8", name_of(a.fp8)}}; }

Json site_json(const SiteDifference& s) {
  return {{"layer", s.layer},
          {"site", s.site},
          {"head", s.head < 0 ? Json(nullptr) : Json(s.head)},
          {"scale", {json_number(s.scale_a), json_number(s.scale_b)}},
          {"ratio", static_cast<double>(s.scale_b) / s.scale_a},
          {"absmax", {json_number(s.absmax_a), json_number(s.absmax_b)}},
          {"assessment", {answers_json(s.assessment_a), answers_json(s.assessment_b)}},
          {"verdict", {name_of(verdict_of(s.assessment_a)), name_of(verdict_of(s.assessment_b))}},
          {"overshoot", {s.overshoot_a, s.overshoot_b}},
          {"effect", s.effect}};
}

Json to_json(const DiffFlags& flags, const ArtifactDifference& d) {
  Json members = Json::array(), sites = Json::array();
  for (const MemberDifference& m : d.members)
    members.push_back({{"member", m.member}, {"a", m.a}, {"b", m.b}, {"decides", m.decides}});
  for (const SiteDifference& s : d.sites) sites.push_back(site_json(s));
  return {{"a", flags.a},       {"b", flags.b},  {"tolerance", flags.tolerance}, {"within", d.within(flags.tolerance)},
          {"members", members}, {"sites", sites}};
}

void print_text(const DiffFlags& flags, const ArtifactDifference& d) {
  for (const MemberDifference& m : d.members)
    write_line((m.decides ? "! " : "  "), m.member, ": ", quoted(m.a), " -> ", quoted(m.b));
  using enum Table::Align;
  Table table({{"layer", Right},
               {"site"},
               {"scale A", Right},
               {"scale B", Right},
               {"B / A", Right},
               {"absmax B / A", Right, 1},
               {"scale?, fp8"}},
              2);
  Lines effects;
  size_t n_changed = 0, n_effects = 0;
  double largest = 0;
  for (const SiteDifference& s : d.sites) {
    largest = std::max(largest, s.change());
    n_effects += !s.effect.empty() || s.other_answer();
    if (s.scale_a == s.scale_b && s.absmax_a == s.absmax_b && !s.other_answer() && s.effect.empty()) continue;
    n_changed += s.scale_a != s.scale_b;
    const std::string a = answers(s.assessment_a), b = answers(s.assessment_b);
    const std::string site = s.site + (s.head < 0 ? "" : " head " + std::to_string(s.head));
    table.add_row({std::to_string(s.layer), site, figure(s.scale_a), figure(s.scale_b),
                   figure(static_cast<double>(s.scale_b) / s.scale_a),
                   figure(static_cast<double>(s.absmax_b) / static_cast<double>(s.absmax_a)),
                   a == b ? a : a + " -> " + b});
    if (!s.effect.empty()) effects.add("layer " + std::to_string(s.layer) + " " + site + ": " + s.effect);
  }
  if (n_changed + n_effects > 0) write_result(table.text() + Lines("") + effects);
  write_line(n_changed, " of ", d.sites.size(), " scales changed, by at most ", figure(100 * largest), " %; ",
             n_effects, " of them with an effect; ", (d.within(flags.tolerance) ? "within" : "NOT within"),
             " the tolerance of ", figure(100 * flags.tolerance), " %");
}

Exit run(const DiffFlags& flags) {
  if (!std::isfinite(flags.tolerance) || flags.tolerance < 0)
    fail("--tolerance is " + figure(flags.tolerance) + ", expected a share, 0 or more, such as 0.05");
  const auto [a, b] = read_both(flags);
  const ArtifactDifference d = compare(a, b);
  if (flags.json)
    write_json(to_json(flags, d));
  else
    print_text(flags, d);
  return d.within(flags.tolerance) ? Exit::Done : Exit::Findings;
}

}  // namespace

void add_diff(CLI::App& app, Job& chosen) {
  auto flags = std::make_shared<DiffFlags>();
  CLI::App* verb = app.add_subcommand("diff", "Compare two scale files and tell whether the changes matter");
  verb->add_option("A", flags->a, "Scale file, or statistics, solved with the other file's options")->required();
  verb->add_option("B", flags->b, "Scale file or statistics to compare with")->required();
  verb->add_option("--tolerance", flags->tolerance, "Largest relative change of a scale to ignore, 0.05 = 5 %")
      ->capture_default_str();
  verb->add_flag("--json", flags->json, "One JSON object on standard output");
  verb->footer(
      "A scale matters where it clips what the other file measured (scale * max < absmax), or is more than 16 times\n"
      "too large for it (INT8: twice). Exit code 0: equal, or within the tolerance; 1: a scale changed by more, has\n"
      "an effect or another assessment, or the files differ in model, format, granularity or layers; 2: a file\n"
      "cannot be read. Different prompts and options are listed, but do not affect the exit code.\n"
      "\n"
      "Examples:\n"
      "  kvcal diff old.json new.json\n"
      "  kvcal diff a.json b.json --json | jq '.sites[] | select(.effect != \"\")'");
  verb->callback([flags, &chosen] { chosen = [flags] { return run(*flags); }; });
}

}  // namespace kvcal
