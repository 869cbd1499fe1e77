// The JSON schema of evaluation.json, as part of the program.
#pragma once

#include <string_view>

namespace kvcal {

/// schemas/evaluation.v1.schema.json, byte for byte as it was when the program was built.
std::string_view evaluation_schema();

}  // namespace kvcal
