// What a pack's folder has (export/pack.h), for whoever is given the folder in place of its scale file.
#pragma once

#include <filesystem>

namespace kvcal {

constexpr const char* kPackManifest = "kvcal-pack.json";
constexpr const char* kPackScales = "kv-cache-scales.json";

/// Of a pack's folder the scale file in it, else what was given.
std::filesystem::path scale_file_of(const std::filesystem::path& given);

}  // namespace kvcal
