// The statistics file, *.kvstats: a safetensors container (schemas/stats.v1.md describes it). Equal statistics give
// equal bytes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/atomic_file.h"
#include "checkpoint/safetensors_writer.h"
#include "stats/run_record.h"

namespace kvcal {

constexpr std::string_view kStatisticsFormat = "kvcal-stats";
constexpr std::string_view kStatisticsVersion = "1.5";
/// A file that holds no states has the bytes, and so the version, that it had before there were any.
constexpr std::string_view kVersionWithoutStates = "1.4";

/// What a file of these statistics says of itself.
std::string_view version_of(const Statistics& statistics);

/// What a file holds beside statistics: a resume file's rows. Tensor names must sort behind "prompt_tags".
struct StatisticsCompany {
  std::vector<std::pair<std::string, Tensor>> tensors;  // sorted by name; on the host
  SafetensorsMetadata metadata;                         // beside "kvcal"
};

/// Writes the whole file or nothing. Throws Error when the target exists (Existing::Refuse) or cannot be written, and
/// when the statistics contradict themselves (check_statistics).
void write_statistics(const std::filesystem::path& path, const Statistics& statistics, Existing existing,
                      const StatisticsCompany& company = {});

/// Reads a file that nobody vouches for: its seal (since 1.3), every shape, offset, code and count are checked before
/// use, and the sums of the tables against each other. Throws Error beginning with the path. Reads every 1.x; tensors
/// that this version does not know are ignored in later ones and refused in it and earlier ones, but for those of a
/// company with this prefix.
Statistics read_statistics(const std::filesystem::path& path, std::string_view company_prefix = "");

}  // namespace kvcal
