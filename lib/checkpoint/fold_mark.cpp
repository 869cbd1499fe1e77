#include "checkpoint/fold_mark.h"

namespace kvcal {

std::optional<Json> read_fold_record(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kFoldRecord;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;
  Json record = read_json_file(path, {.max_bytes = size_t{128} << 20, .max_depth = 16});
  if (!record.is_object() || get_string_or(record, "format", "") != kFoldFormat)
    fail(quoted(path.string()) + " is no record of a fold ('format' is not " + quoted(std::string(kFoldFormat)) + ")");
  return record;
}

}  // namespace kvcal
