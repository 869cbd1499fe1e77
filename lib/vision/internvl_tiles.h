// The tiles that InternVL cuts pictures into, whichever processor does it.
#pragma once

#include "vision/processor_settings.h"

namespace kvcal {

/// The keys of a config that has them.
struct LimitNames {
  const char *least, *most;
};

/// Throws Error for limits that no picture fits.
void check_limits(const TileLimits& limits, const LimitNames& names);

/// What becomes of pictures, by one kernel: tiles of the tower's edge lie below each other.
PatchRules rules_of_tiles(const TileLimits& limits, const PatchShape& shape, const ResizeKernel& kernel);

}  // namespace kvcal
