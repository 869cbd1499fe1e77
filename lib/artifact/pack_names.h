// What a pack's folder has (export/pack.h), for whoever is given the folder in place of its scale file.
#pragma once

namespace kvcal {

constexpr const char* kPackManifest = "kvcal-pack.json";
constexpr const char* kPackScales = "kv-cache-scales.json";

}  // namespace kvcal
