// kvcal-export.json: the record of an export, in the folder that it wrote.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace kvcal {

struct RecordedFile {
  std::string name;
  std::string sha256;    // "" for shards
  std::string original;  // in place: where the publisher's file is kept; "" when there was none
};

struct ExportRecord {
  std::string target, tool_version, scales_sha256;
  std::string evaluation_sha256;  // whose recipe was followed; "" for none
  bool in_place = false;
  std::vector<RecordedFile> files;  // all that the publisher did not write, but for this one
};

std::string record_text(const ExportRecord& record);

/// Throws Error when it is none, or names files outside of its folder.
ExportRecord record_from_json(const Json& json);

/// Of that folder; none when it has no such file. Throws Error when it is broken.
std::optional<ExportRecord> read_record(const std::filesystem::path& folder);

}  // namespace kvcal
