// The bytes of a prompt file, decompressed.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace kvcal {

using TakeBlock = std::function<void(std::string_view)>;

/// Gives the contents of `path` ("-": standard input) block by block, through gzip or zstd when it ends with .gz or
/// .zst or begins as those do. Throws Error (beginning with the path) when it cannot be read, is broken, or unpacks to
/// more than max_bytes or sixteen times its size (64 MiB are always accepted). What `take` throws is left alone.
void read_prompt_file(const std::filesystem::path& path, size_t max_bytes, const TakeBlock& take);

}  // namespace kvcal
