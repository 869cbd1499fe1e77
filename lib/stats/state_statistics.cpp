#include "stats/state_statistics.h"

namespace kvcal {

std::vector<StateLayout> state_layouts(const ModelSpec& spec) {
  std::vector<StateLayout> layouts;
  for (const LayerSpec& l : spec.layers) {
    if (!l.has_long_state() || l.state_heads == 0) continue;
    const int64_t elements = (l.state_bytes - l.conv_bytes) / static_cast<int64_t>(sizeof(float));
    layouts.push_back({l.index, std::string(name_of(l.state_kind())), l.state_heads, l.state_row,
                       elements / (l.state_heads * l.state_row)});
  }
  return layouts;
}

}  // namespace kvcal
