// Whether a checkpoint folder with KV scales, from any tool, is fit to be served: by itself, by what was measured, and
// by what each server does with it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/lines.h"
#include "check/finding.h"
#include "servers/served_scales.h"

namespace kvcal {

struct FolderChecks {
  std::vector<Server> servers;
  std::filesystem::path scales, statistics;  // what to compare with; empty = nothing
  int64_t n_ranks = 0;                       // tensor-parallel size; 0 = not said
  bool names_servers = true;                 // false: a folder for another server than these is not held against them
};

struct FolderReport {
  Report report;
  std::vector<ServedScales> served;  // by server
};

/// Checks the folder; findings name the file they are about. `schema` is that of scale files. Throws Error for a folder
/// that cannot be read as a checkpoint, and for a file to compare with that cannot be read at all.
FolderReport validate_folder(const std::filesystem::path& folder, std::string_view schema, const FolderChecks& checks);

/// What a scale file is as --quantization-param-path of the servers: rule V08.
void check_as_side_file(std::string_view text, const std::vector<Server>& servers, Report& report);

/// What keeps servers from starting, and which are not known.
Lines served_text(const std::vector<ServedScales>& served);
/// Titles, then a row for each layer with the values that each server uses, not yet printable; none where no server
/// starts.
std::vector<std::vector<std::string>> served_rows(const std::vector<ServedScales>& served);
Json served_json(const std::vector<ServedScales>& served);

}  // namespace kvcal
