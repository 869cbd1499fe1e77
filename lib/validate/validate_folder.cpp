#include "validate/validate_folder.h"

#include <algorithm>

#include "artifact/delivery.h"
#include "artifact/make_artifact.h"
#include "base/file_kind.h"
#include "base/read_file.h"
#include "check/artifact_checks.h"
#include "check/folder_checks.h"
#include "export/record.h"
#include "solve/solution.h"
#include "stats/statistics_file.h"
#include "validate/validate.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

/// The scale file, itself checked against this checkpoint; nothing when it is not sound enough to compare with.
std::optional<Reference> reference_of(const FolderChecks& checks, const fs::path& folder, std::string_view schema,
                                      Report& report) {
  if (checks.scales.empty() && checks.statistics.empty()) return std::nullopt;
  const ModelIdentity model = identify_model(folder);
  if (!checks.statistics.empty()) {
    Reference r;
    r.statistics = read_statistics(checks.statistics);
    check_rotation(*r.statistics, report);
    r.artifact = make_artifact(*r.statistics, solve(*r.statistics, {}));
    const Report own = validate_artifact(artifact_text(r.artifact), schema, &model);
    report.merge(own, checks.statistics.string());
    for (Finding& f : report.findings) f.line = 0;  // of a file that nobody has
    return own.has_errors() ? std::nullopt : std::optional(std::move(r));
  }
  expect_kind(FileKind::ScaleFile, kExpectedScales, checks.scales);
  const std::string text = read_file(checks.scales, kMostArtifactBytes);
  const Report own = validate_artifact(text, schema, &model);
  report.merge(own, checks.scales.string());
  if (own.has_errors()) return std::nullopt;
  return Reference{artifact_from_json(parse_json(text)), std::nullopt};
}

/// Whether what made the scales is known: then their size alone says nothing against them. kvcal exports measurements.
bool is_measured(const fs::path& folder, const FolderChecks& checks) {
  return !checks.scales.empty() || !checks.statistics.empty() || read_record(folder).has_value();
}

/// Of files that are neither checkpoints nor scale files.
bool is_of_other_files(const Rule& rule) {
  return rule.needs == "a statistics file" || rule.needs == "an evaluation" || rule.needs == "a pack" ||
         rule.needs == rule_table::kPage || rule.needs == "a checkpoint with --stats";
}

/// Without its record it cannot be told what was measured on this model.
void explain_unknown(Report& report) {
  for (const Rule& rule : rules())
    if (!is_of_other_files(rule)) report.not_evaluated({rule.id}, "the record of the fold is broken");
}

/// Rules of scale files were not looked at where none was given.
void explain_the_rest(const FolderChecks& checks, bool is_known, Report& report) {
  report.not_evaluated({"S04", "S05", "S08", "S24"}, "the scales are known to be measured");
  if (checks.n_ranks == 0) report.not_evaluated({"S18"}, "needs --tp");
  report.not_evaluated({"V08"}, "applies to scale files only");
  if (checks.scales.empty()) report.not_evaluated({"V06", "V09"}, "needs --scales");
  const bool compares = !checks.scales.empty() || !checks.statistics.empty();
  if (compares && !is_known) explain_unknown(report);
  if (compares) return;
  for (const Rule& rule : rules())
    if (!is_of_other_files(rule) || rule.id == "C19") report.not_evaluated({rule.id}, "needs --scales or --stats");
}

}  // namespace

FolderReport validate_folder(const fs::path& folder, std::string_view schema, const FolderChecks& checks) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  FolderReport result;
  const StoredSpec stored = stored_spec(checkpoint);
  const ModelSpec& spec = stored.spec;
  FolderUnderTest f{checkpoint,
                    spec,
                    read_stored_scales(checkpoint, spec),
                    {},
                    check_fold(checkpoint, result.report),
                    stored.bare_mtp,
                    read_modelslim(folder)};
  const bool is_known = !result.report.has_errors();
  const bool is_for_others = has_modelslim_scales(f);
  if (!is_for_others || checks.names_servers)
    for (const Server& server : checks.servers) f.served.push_back(served_by(f, server));
  const std::optional<Reference> reference =
      is_known ? reference_of(checks, folder, schema, result.report) : std::nullopt;
  check_stored_numbers(f, is_measured(folder, checks), result.report);
  const bool needs_none = reference && (serves_as_it_is(reference->artifact) || is_judged_at_one(f, *reference));
  check_stored_layers(f, needs_none || (is_for_others && f.served.empty()), result.report);
  check_declaration(f, result.report);
  check_modelslim(f, result.report);
  check_key_bias(f, result.report);
  if (checks.n_ranks > 0) check_ranks(f, checks.n_ranks, result.report);
  check_servers(f, result.report);
  if (reference) check_against(f, *reference, result.report);
  if (is_for_others && f.served.empty())
    result.report.not_evaluated({"C16", "V01", "V02", "V03", "V04", "V05", "V07", "V11"},
                                "the scales are vLLM-Ascend's; needs --server");
  explain_the_rest(checks, is_known, result.report);
  result.served = std::move(f.served);
  return result;
}

void check_as_side_file(std::string_view text, const std::vector<Server>& servers, Report& report) {
  if (servers.empty()) return;
  report.evaluated({"V05"});
  const Artifact a = artifact_from_json(parse_json(text));
  const std::string& architecture = a.model.architecture;
  const std::vector<DepartingSite> departing = departing_sites(a, false);
  const auto misses = [&](const char* path, const std::string& name, const char* expected, const std::string& why) {
    if (!departing.empty())  // without scales a server has 1.0
      report.add("V08", path, name, expected, why + "; not 1.0: " + text_of(a, departing));
  };
  for (const Server& server : servers) {
    for (const std::string& note : version_notes(server)) report.add("V05", "", note);
    if (!knows_side_files(server)) {
      report.not_evaluated({"V08"}, "what " + str(server) + " does with scale files was not checked");
      continue;
    }
    report.evaluated({"V08"});
    const std::string name = str(server) + " " + architecture;
    if (server.kind == ServerKind::Vllm)
      misses("", name, "", "no flag takes a scale file since 0.7");
    else if (!server_support(server, architecture, KvCarrier::None).json)
      misses("", name, "", "RuntimeError: the class does not support loading scaling factors");
    else if (a.kv_cache.empty())
      misses("kv_cache", name, "a block kv_cache", a.kv_cache_left_out);
  }
}

}  // namespace kvcal
