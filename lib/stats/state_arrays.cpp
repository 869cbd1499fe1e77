#include "stats/state_arrays.h"

#include <utility>

namespace kvcal {

std::string state_prefix(const StateLayout& layout) { return "l" + std::to_string(layout.layer) + ".state."; }

StateStatistics unflatten_state(SiteArrays arrays, const StateLayout& layout) {
  SiteExtents extents;
  extents.heads = layout.heads;
  arrays.channel_offsets = {0};  // of no channel
  arrays.under.resize(static_cast<size_t>(layout.heads));
  arrays.over.resize(static_cast<size_t>(layout.heads));
  return {layout, unflatten(arrays, extents)};
}

}  // namespace kvcal
