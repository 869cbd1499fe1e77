// docs/findings.md: how each finding of validate comes about, below a heading with its id.
#pragma once

#include <string_view>

namespace kvcal {

std::string_view finding_origins();

}  // namespace kvcal
