// What rounding the values of each KV head does to its output, predicted from statistics (damage.h has all of them
// together).
#pragma once

#include <span>
#include <vector>

#include "solve/format.h"
#include "stats/statistics.h"

namespace kvcal {

struct HeadChange {
  double rel = 0;       // PredictedDamage::rel_raw, of the head alone
  bool counts = false;  // those that do not give less than a twentieth of the energy, all of them together
};

/// `scales` has one entry for all heads, or one per head.
std::vector<HeadChange> predict_head_changes(const CacheStatistics& cache, const NumberFormat& format,
                                             std::span<const float> scales);

}  // namespace kvcal
