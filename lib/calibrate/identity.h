// Which checkpoint statistics are of, also of a class that only other programs run.
#pragma once

#include <filesystem>

#include "stats/model_info.h"

namespace kvcal {

/// As describe() says it. Of a class that is not known, or a config that is not supported: what its config and the
/// names of its tensors tell; n_kv_layers is then 0, and who has measured knows it. Throws Error for a folder without
/// weights.
ModelInfo identify(const std::filesystem::path& folder);

}  // namespace kvcal
