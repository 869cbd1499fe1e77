// What calibrate --if-changed and --check find where a run would write.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "artifact/artifact.h"
#include "stats/run_record.h"

namespace kvcal {

struct EarlierResult {
  std::optional<Artifact> artifact = {};  // none: the run cannot be spared
  std::string why = {};                   // it cannot; "" where there is no file
  std::string sha256 = {};                // of the scale file
  bool replaceable = false;               // what is there is ours
};

/// Reads the scale file and, unless empty, the statistics beside it. A file that is no scale file or no statistics is
/// an Error unless `force`; one that is damaged, or does not belong to the other one, costs a run.
EarlierResult earlier_result(const std::filesystem::path& scales, const std::filesystem::path& statistics, bool force);

/// Whether the statistics in this file, which the command may replace, are of the same run. Throws Error where it
/// cannot be read.
bool are_of_run(const std::filesystem::path& statistics, const RunRecord& run);

}  // namespace kvcal
