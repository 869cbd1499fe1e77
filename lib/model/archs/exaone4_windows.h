// The windows of EXAONE 4 and K-EXAONE.
#pragma once

#include <cstdint>
#include <vector>

#include "base/json.h"

namespace kvcal {

/// Per layer, 0 = none: layer_types, else sliding_window_pattern, letters ("LLLG": three local layers, one global) or a
/// period. Refuses a window that no layer has: servers would rotate every layer, the reference none.
std::vector<int64_t> read_exaone4_windows(const Json& text, int64_t n_layers);

}  // namespace kvcal
