// A page that carries the files it is made of, so that it can be made again of them and compared.
#pragma once

#include <string>
#include <string_view>

#include "report/report.h"

namespace kvcal {

/// An evaluation, and its variant with the scales that are reported.
struct Evaluated {
  SavedEvaluation evaluation;
  std::string as;  // "": none is known to have them
};

/// What is reported. `is_file`: a scale file, not scales that statistics give.
struct ReportedScales {
  const Artifact& artifact;
  std::string name, sha256;
  bool is_file = true;
};

/// Throws Error for an evaluation (`name`) of another model, and for one of other scales than those of the file.
Evaluated evaluated(SavedEvaluation evaluation, const std::string& name, const ReportedScales& scales);

constexpr size_t kMostPageBytes = size_t{64} << 20;

/// The page of a scale file and an evaluation of it, which carries both. Throws Error where one is broken, where no
/// variant has these scales, and where the page would be larger than that.
std::string evidence_page(const std::string& scales, const std::string& evaluation, const std::string& tool_version);

/// Who wrote a page: "kvcal 0.1.0"; "" where that cannot be told.
std::string writer_of(std::string_view page);

}  // namespace kvcal
