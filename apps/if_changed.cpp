#include "if_changed.h"

#include "artifact/artifact_schema.h"
#include "base/error.h"
#include "base/input_files.h"
#include "base/sha256.h"
#include "check/rules.h"
#include "stats/statistics_file.h"
#include "validate/validate.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// Nothing where `read` throws and the file may be replaced all the same.
template <class Read>
auto read_ours(bool force, std::string& why, Read read) -> std::optional<decltype(read())> {
  try {
    return read();
  } catch (const Error& e) {
    if (!force) fail(std::string("--if-changed: ") + e.what() + "; --force replaces it");
    why = e.what();
    return std::nullopt;
  }
}

/// The first error, "" for none: somebody may have edited the file.
std::string damage_of(const std::string& text) {
  for (const Finding& finding : validate_artifact(text, std::string(artifact_schema())).findings)
    if (rule_named(finding.rule).severity >= Severity::Error)
      return finding.rule + " " + finding.path + ": " + finding.what;
  return "";
}

/// Why statistics are not those of the scale file; "" where they are.
std::string mismatch(const fs::path& statistics, const Statistics& found, const Artifact& artifact) {
  const bool same = found.run.model == artifact.model && found.run.calibration == artifact.calibration;
  return same ? "" : quoted(statistics.string()) + " is from another run";
}

EarlierResult read_earlier(const fs::path& scales, const fs::path& statistics, bool force) {
  EarlierResult result;
  std::string& why = result.why;
  if (is_there(scales)) {
    const auto text = read_ours(force, why, [&] { return read_artifact_text(scales); });
    if (!text) return result;
    result.artifact = read_ours(force, why, [&] { return parse_artifact(*text, scales); });
    if (!result.artifact) return result;
    result.sha256 = sha256_hex(*text);
    why = damage_of(*text);
    if (!why.empty()) why = quoted(scales.string()) + " is not valid: " + why;
  }
  if (!statistics.empty() && is_there(statistics)) {
    const auto found = read_ours(force, why, [&] { return read_statistics(statistics); });
    if (!found) return {.why = why};
    if (result.artifact && why.empty()) why = mismatch(statistics, *found, *result.artifact);
  } else if (!statistics.empty() && result.artifact && why.empty()) {
    why = "there is no " + quoted(statistics.string());
  }
  result.replaceable = true;
  if (!why.empty()) result.artifact.reset();
  return result;
}

}  // namespace

EarlierResult earlier_result(const fs::path& scales, const fs::path& statistics, bool force) {
  EarlierResult result = read_earlier(scales, statistics, force);
  for (const fs::path& replaced : {scales, statistics}) forget_input(replaced);
  return result;
}

bool are_of_run(const fs::path& statistics, const RunRecord& run) {
  const RunRecord found = read_statistics(statistics).run;
  forget_input(statistics);
  return found.model == run.model && found.calibration == run.calibration && found.plan_sha256 == run.plan_sha256;
}

}  // namespace kvcal
