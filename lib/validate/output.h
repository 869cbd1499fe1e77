// Reports as text, JSON, SARIF and GitHub annotations.
#pragma once

#include <string>

#include "base/json.h"
#include "base/lines.h"
#include "check/finding.h"
#include "servers/served_scales.h"

namespace kvcal {

struct Validated {
  std::string file;
  Report report;
  bool strict = false;               // warnings count as errors
  std::vector<ServedScales> served;  // of a checkpoint folder: what each server uses
  bool verbose = false;              // the text lists the rules that were not evaluated
  bool is_checkpoint = false;        // the file is a checkpoint folder
  bool passed() const { return !report.has_errors() && !(strict && report.count(Severity::Warning) > 0); }
};

/// `served`: the table of served_rows(), as wide as the terminal.
Lines text_report(const Validated& result, const Lines& served = {});
Json json_report(const Validated& result);
/// Of the program that reports.
struct Reporter {
  std::string version;    // "0.1.0"
  std::string site = "";  // where the pages of findings are published, ending in '/'; "": nowhere
};

/// SARIF 2.1.0, with the table of rules.
Json sarif_report(const Validated& result, const Reporter& reporter);
/// Workflow commands: "::error file=...,line=...,title=S02::...".
Lines github_report(const Validated& result);
/// The table of rules, a line each.
Lines rules_text();
Json rules_json();

}  // namespace kvcal
