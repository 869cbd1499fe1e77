// Files of the program include what they name, also where a precompiled header or a merged file would give it to them.
#pragma once

#include "rules/rules.h"

namespace kvcal::rules {

/// Files of lib/ and apps/ that name something of a header which CMakeLists.txt precompiles (std::vector, nlohmann::)
/// and include it neither themselves nor through headers of the tree. What 'make debug' sees by compiling, for most
/// cases.
Findings own_includes(const std::vector<SourceFile>& tree);

}  // namespace kvcal::rules
