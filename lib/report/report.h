// The report: one HTML page that needs no network and no script, from a scale file or from the statistics behind it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "artifact/artifact.h"
#include "artifact/saved_evaluation.h"
#include "report/carried_files.h"
#include "solve/options.h"
#include "stats/run_record.h"

namespace kvcal {

struct ReportInput {
  const Artifact& artifact;
  const Statistics* statistics = nullptr;       // what the artifact was solved from; null: a scale file alone
  std::string source;                           // what the user calls the file
  std::string tool_version;                     // of the program that writes the page
  SolveOptions options{};                       // what the artifact was solved with, where there are statistics
  const SavedEvaluation* evaluation = nullptr;  // of the same model; null: none
  std::string evaluated_as{};                   // its variant with these scales; "": none is known to have them
  std::vector<CarriedFile> carried{};           // what the page is made of, for it to carry
};

// How carried files are called.
constexpr const char *kCarriedScales = "kv-cache-scales.json", *kCarriedEvaluation = "evaluation.json";

/// Stands before tool_version, at the end.
constexpr std::string_view kWrittenBy = "<footer>written by ";

/// The whole page. Equal inputs give equal bytes; what strangers wrote is escaped.
std::string report_html(const ReportInput& input);

}  // namespace kvcal
