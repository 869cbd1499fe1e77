#include "validate/validate_evaluation.h"

#include "artifact/artifact.h"
#include "artifact/saved_evaluation.h"
#include "base/file_kind.h"
#include "base/sha256.h"
#include "check/evaluation_checks.h"
#include "validate/locate.h"

namespace kvcal {
namespace {

constexpr const char* kUsualScales = "kv-cache-scales.json";  // what calibrate writes unless told otherwise

std::string digest_of_scales(const std::filesystem::path& file) { return sha256_hex(read_artifact_text(file)); }

/// "" where there is none that can be read.
std::string digest_beside(const std::filesystem::path& file) {
  const std::filesystem::path beside = file.parent_path() / kUsualScales;
  std::error_code ignored;
  if (file.empty() || !std::filesystem::is_regular_file(beside, ignored)) return "";
  try {
    return digest_of_scales(beside);
  } catch (const Error&) {
    return "";
  }
}

/// Rules that speak of scale files, statistics and checkpoints say nothing here.
void explain_other_rules(const EvaluationChecks& checks, Report& report) {
  if (!checks.model) report.not_evaluated({"M01", "M02", "M03", "M04"}, "needs --model");
  if (checks.scales.empty()) report.not_evaluated({"D06"}, "needs --scales");
  report.not_evaluated({"D07"}, "no kv-cache-scales.json beside it");
  const bool stopped = report.has_errors();
  for (const Rule& rule : rules())
    if (!stopped || (rule.id[0] != 'D' && rule.id[0] != 'A'))
      report.not_evaluated({rule.id}, "does not apply to evaluations");
}

}  // namespace

bool is_evaluation_text(std::string_view text) {
  try {
    return is_evaluation(parse_evaluation(text));
  } catch (const Error&) {
    return false;
  }
}

Report validate_evaluation(std::string_view text, const EvaluationChecks& checks) {
  Report report;
  report.evaluated({"A01", "A06"});
  if (!checks.scales.empty()) expect_kind(FileKind::ScaleFile, kExpectedScales, checks.scales);
  const std::string named = checks.scales.empty() ? "" : digest_of_scales(checks.scales);
  Json document;
  try {
    document = parse_evaluation(text);
  } catch (const Error& e) {
    report.add("A01", "", e.what());
    explain_other_rules(checks, report);
    return report;
  }
  try {
    check_evaluation_schema(document, report);
    if (!report.has_errors()) {
      const SavedEvaluation evaluation = evaluation_from_json(document);
      check_evaluation(evaluation, report);
      if (checks.model) check_evaluated_model(evaluation, *checks.model, report);
      check_evaluated_scales(evaluation, named, digest_beside(checks.file), report);
    }
  } catch (const Error& e) {
    report.add("A06", "", e.what());
  }
  explain_other_rules(checks, report);
  locate(text, report.findings);
  return report;
}

}  // namespace kvcal
