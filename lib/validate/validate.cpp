#include "validate/validate.h"

#include <charconv>

#include "check/artifact_checks.h"
#include "validate/locate.h"

namespace kvcal {
namespace {

/// "... at line 12, column 3: ..." of the parser's messages; 1 where there is none.
size_t line_in(const std::string& message) {
  constexpr std::string_view kMark = "at line ";
  const size_t at = message.find(kMark);
  size_t line = 1;
  if (at != std::string::npos)
    std::from_chars(message.data() + at + kMark.size(), message.data() + message.size(), line);
  return line;
}

void check_sound(const Artifact& artifact, const ModelIdentity* model, Report& report) {
  check_measurements(artifact, report);
  check_scales(artifact, report);
  check_damage(artifact, report);
  if (!report.has_errors()) check_quality(artifact, report);
  if (model) check_model(artifact, *model, report);
}

void check_document(const Json& document, std::string_view schema, const ModelIdentity* model, Report& report) {
  check_numbers(document, report);
  check_schema_of(document, schema, report);
  if (report.has_errors()) return;
  check_layers(document, report);
  report.evaluated({"A06"});
  if (report.has_errors()) return;
  try {
    check_sound(artifact_from_json(document), model, report);
  } catch (const Error& e) {
    report.add("A06", "", e.what());
  }
}

}  // namespace

Report validate_artifact(std::string_view text, std::string_view schema, const ModelIdentity* model) {
  Report report;
  report.evaluated({"A01"});
  JsonLimits limits;
  limits.max_bytes = kMostArtifactBytes;
  limits.max_depth = 32;
  limits.allow_non_finite = true;  // a scale of NaN deserves its own words
  Json document;
  try {
    document = parse_json(text, limits);
  } catch (const Error& e) {
    report.add("A01", "", e.what());
    report.findings.back().line = line_in(e.what());
    return report;
  }
  check_document(document, schema, model, report);
  locate(text, report.findings);
  return report;
}

}  // namespace kvcal
