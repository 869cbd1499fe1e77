// Formats of a recurrent state by the names that a command line has for them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/state_format.h"

namespace kvcal {

/// "bf16", "f16_stochastic", "int8" with a scale per tensor, "int8_per_head", "int8_per_tile", "int8_per_row", ...
std::vector<std::string> state_format_names();

/// One of these. Throws Error for an unknown name.
StateFormat state_format(std::string_view name);

}  // namespace kvcal
