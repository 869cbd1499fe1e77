// The YAML that people write for containers: compose files, Kubernetes manifests, values of charts.
#pragma once

#include <string_view>
#include <vector>

#include "base/json.h"

namespace kvcal {

/// The documents of a text: block and flow collections, all scalars, anchors, aliases and merge keys, comments. Scalars
/// stay texts ("true", "8000"), an empty one or ~ is null. Of templates lines that hold nothing else ("{{- if .x }}")
/// are left out, and a value that begins with one is a text. Tags are left out, and refused where they begin with a
/// handle that no %TAG declares ("!e!f"); keys must be scalars. Bytes that are no UTF-8 become U+FFFD.
/// Throws Error with the line; also beyond 64 levels, 1,024 keys of one mapping, 32 %TAG, or 16 MiB with what aliases
/// repeat.
std::vector<Json> parse_yaml(std::string_view text);

}  // namespace kvcal
