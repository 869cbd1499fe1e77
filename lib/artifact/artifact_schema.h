// The JSON schema of the scale file, as part of the program.
#pragma once

#include <string_view>

namespace kvcal {

/// schemas/kv-cache-scales.v1.schema.json, byte for byte as it was when the program was built.
std::string_view artifact_schema();

}  // namespace kvcal
