#include "export/record.h"

#include "artifact/json_text.h"
#include "base/error.h"
#include "export/overlay.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormat = "kvcal-export";

std::string plain_name(const Json& object, const char* key) {
  const std::string name = get_string_or(object, key, "");
  if (name.find('/') != name.npos || name == "." || name == ".." || name.find('\0') != name.npos)
    fail(std::string("its ") + key + " " + quoted(name) + " is not a name within the folder");
  return name;
}

RecordedFile file_from(const Json& json) {
  if (!json.is_object()) fail("an entry of 'files' is not an object");
  const RecordedFile file = {plain_name(json, "name"), get_string_or(json, "sha256", ""), plain_name(json, "original")};
  if (file.name.empty()) fail("an entry of 'files' has no name");
  return file;
}

}  // namespace

std::string record_text(const ExportRecord& record) {
  Json files = Json::array();
  for (const RecordedFile& file : record.files) {
    Json entry = {{"name", file.name}};
    if (!file.sha256.empty()) entry["sha256"] = file.sha256;
    if (!file.original.empty()) entry["original"] = file.original;
    files.push_back(std::move(entry));
  }
  Json json = {{"format", kFormat},
               {"version", "1.0"},
               {"target", record.target},
               {"tool_version", record.tool_version},
               {"scales_sha256", record.scales_sha256}};
  if (!record.evaluation_sha256.empty()) json["evaluation_sha256"] = record.evaluation_sha256;
  json["in_place"] = record.in_place;
  json["files"] = files;
  return json_text(json);
}

ExportRecord record_from_json(const Json& json) {
  if (!json.is_object() || get_string_or(json, "format", "") != kFormat) fail("is not a record of an export");
  ExportRecord record;
  record.target = get_string(json, "target");
  record.tool_version = get_string(json, "tool_version");
  record.scales_sha256 = get_string(json, "scales_sha256");
  record.evaluation_sha256 = get_string_or(json, "evaluation_sha256", "");
  record.in_place = get_bool_or(json, "in_place", false);
  const Json* files = find_member(json, "files");
  if (!files || !files->is_array()) fail("has no list 'files'");
  for (const Json& file : *files) record.files.push_back(file_from(file));
  return record;
}

std::optional<ExportRecord> read_record(const fs::path& folder) {
  const fs::path path = folder / kExportRecord;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  const Json json = read_json_file(path, {.max_bytes = size_t{1} << 20, .max_depth = 8});
  return while_doing(quoted(path.string()), [&] { return record_from_json(json); });
}

}  // namespace kvcal
