// Examples for the pages of findings: what tests damage on purpose, as 'kvcal validate' words it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "validate/output.h"

namespace kvcal {

/// Appends each finding to the file that KVCAL_EXAMPLES names, a line each; nothing without it.
/// tests/site/examples.py reads it.
inline void keep_examples(const Report& report) {
  const char* const file = std::getenv("KVCAL_EXAMPLES");
  if (!file) return;
  std::ofstream out(file, std::ios::app);
  for (Finding finding : report.findings) {
    finding.file = std::filesystem::path(finding.file).filename();  // of a scratch folder
    Report alone;
    alone.add(finding);
    const std::string text = text_report({"kv-cache-scales.json", std::move(alone), false, {}}).text();
    out << text.substr(0, text.find('\n') + 1);
  }
}

}  // namespace kvcal
