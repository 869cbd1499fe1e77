// Files that no output replaces, with --force or without.
#pragma once

#include <filesystem>
#include <string>

namespace kvcal {

/// Why the file at `path` is kept: it is of a model by its content, or it stands in a model's folder (or one folder
/// below config.json) and is none of what verbs write. "" where an output may replace it, or nothing is there. Never
/// throws.
std::string why_kept(const std::filesystem::path& path);

}  // namespace kvcal
