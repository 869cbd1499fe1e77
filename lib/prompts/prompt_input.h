// The bytes of a prompt file, decompressed.
#pragma once

#include <filesystem>
#include <string>

namespace kvcal {

/// Contents of `path` ("-": standard input), through gzip or zstd when it ends with .gz or .zst. Throws Error
/// (beginning with the path) when it cannot be read, is broken, or unpacks to more than max_bytes or a hundred times
/// its size (64 MiB are always accepted).
std::string read_prompt_file(const std::filesystem::path& path, size_t max_bytes);

}  // namespace kvcal
