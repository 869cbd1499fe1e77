// The summary of an evaluation for a pull request or a model card.
#pragma once

#include <string>

#include "report/report.h"

namespace kvcal {

/// A table, the two answers and hashes, in GitHub's Markdown; input.evaluation is there. What strangers wrote is
/// escaped.
std::string report_markdown(const ReportInput& input);

}  // namespace kvcal
