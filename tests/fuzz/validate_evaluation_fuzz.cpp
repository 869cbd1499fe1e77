// kvcal validate on any bytes that may be an evaluation: a report, never an exception.
#include "fuzz/fuzzing.h"
#include "validate/output.h"
#include "validate/validate_evaluation.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvcal;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  is_evaluation_text(text);
  Validated result;
  result.file = "evaluation.json";
  const bool reported = fuzzing::accepts([&] { result.report = validate_evaluation(text, {}); });
  fuzzing::require(reported, "what is wrong is a finding");
  for (const Finding& f : result.report.findings)
    fuzzing::require(!rule_named(f.rule).meaning.empty(), "a finding names a rule of the table");
  const auto replace = Json::error_handler_t::replace;
  fuzzing::require(!text_report(result).empty() && !json_report(result).dump(1, ' ', false, replace).empty(),
                   "there is a report");
  return 0;
}
