// The mark of a checkpoint into whose weights factors were folded (lib/fold).
#pragma once

#include <filesystem>
#include <optional>

#include "base/json.h"

namespace kvcal {

/// The record of a fold, beside the weights, and its member `format`.
constexpr const char* kFoldRecord = "kvcal-fold.json";
constexpr const char* kFoldFormat = "kvcal-fold";

/// That of the folder; none when it has no such file. Throws Error when it is no such record.
std::optional<Json> read_fold_record(const std::filesystem::path& folder);

}  // namespace kvcal
