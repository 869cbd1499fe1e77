// A shard without some of its tensors.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace kvcal {

using TensorNames = std::set<std::string, std::less<>>;

/// Whether the safetensors file holds any of these.
bool holds_any(const std::filesystem::path& shard, const TensorNames& names);

/// Writes the other tensors and the metadata of a safetensors file, unchanged, in canonical order. False, and no file,
/// when none is left. Throws Error: disk full, not readable.
bool copy_without(const std::filesystem::path& shard, const TensorNames& names, const std::filesystem::path& to);

}  // namespace kvcal
