#include "report/evidence_page.h"

#include "base/error.h"
#include "base/sha256.h"
#include "base/size_text.h"
#include "report/sections.h"

namespace kvcal {

Evaluated evaluated(SavedEvaluation evaluation, const std::string& name, const ReportedScales& scales) {
  const auto not_of = [&](const std::string& what, const std::string& is, const std::string& expected) {
    fail(quoted(name) + ": is for other " + what + " than " + quoted(scales.name) + ": " + is.substr(0, 12) +
         ", expected " + expected.substr(0, 12));
  };
  const ModelInfo& model = scales.artifact.model;
  if (evaluation.model.weights_fingerprint != model.weights_fingerprint)
    not_of("weights", evaluation.model.weights_fingerprint, model.weights_fingerprint);
  std::string as = evaluation.variant_of(scales.sha256);
  if (const std::string other = evaluation.sha256_of("file"); scales.is_file && as.empty() && !other.empty())
    not_of("scales", other, scales.sha256);
  return {std::move(evaluation), std::move(as)};
}

std::string evidence_page(const std::string& scales, const std::string& evaluation, const std::string& tool_version) {
  const Artifact artifact = parse_artifact(scales, kCarriedScales);
  const Evaluated found = evaluated(parse_evaluation_file(evaluation, kCarriedEvaluation), kCarriedEvaluation,
                                    {artifact, kCarriedScales, sha256_hex(scales)});
  const ReportInput input = {
      artifact, nullptr,           kCarriedScales, tool_version,
      {},       &found.evaluation, found.as,       {{kCarriedScales, scales}, {kCarriedEvaluation, evaluation}}};
  if (!variant_shown(input))
    fail(quoted(std::string(kCarriedEvaluation)) + ": none of its variants has the scales of " +
         quoted(std::string(kCarriedScales)) + "; evaluate with --scales and that file");
  std::string page = report_html(input);
  if (page.size() > kMostPageBytes)
    fail("the page would have " + bytes_text(page.size()) + ", more than the " + bytes_text(kMostPageBytes) +
         " that validate reads");
  return page;
}

std::string writer_of(std::string_view page) {
  const size_t begin = page.rfind(kWrittenBy);
  if (begin == page.npos) return "";
  page.remove_prefix(begin + kWrittenBy.size());
  return std::string(page.substr(0, page.find('<')));
}

}  // namespace kvcal
