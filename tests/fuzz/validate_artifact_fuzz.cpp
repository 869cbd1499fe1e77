// kvcal validate on any bytes: a report, never an exception, and every way to print it takes what was found.
#include "artifact/artifact.h"
#include "base/read_file.h"
#include "fuzz/fuzzing.h"
#include "validate/output.h"
#include "validate/validate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvcal;
  static const std::string schema =
      read_file(std::string(KVCAL_SOURCE_DIR "/schemas/") + kArtifactSchemaFile, size_t{1} << 20);
  Validated result;
  result.file = "scales.json";
  const bool reported = fuzzing::accepts([&] {
    result.report = validate_artifact({reinterpret_cast<const char*>(data), size}, schema);
  });
  fuzzing::require(reported, "only a broken schema is an error");
  for (const Finding& f : result.report.findings)
    fuzzing::require(!rule_named(f.rule).meaning.empty(), "a finding names a rule of the table");
  const auto replace = Json::error_handler_t::replace;
  fuzzing::require(!text_report(result).empty() && !json_report(result).dump(1, ' ', false, replace).empty(),
                   "there is a report");
  fuzzing::require(!sarif_report(result, {.version = "0"}).dump(1, ' ', false, replace).empty(),
                   "there is a SARIF log");
  github_report(result);
  return 0;
}
