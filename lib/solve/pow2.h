// Which power of two: the one nearest to 1.0 that loses nothing.
//
// A floating-point format rounds a value that is normal at two powers of two to the same number at both. They differ in
// what they clip and in what they make subnormal alone: a smaller one can only clip more, and a larger one only lose
// more at the bottom. So the least that clips nothing is as good as any, and each up to 1.0 that is as good as it
// departs less from what a server does that loads no scales.
#pragma once

#include <vector>

#include "solve/format.h"
#include "stats/statistics.h"

namespace kvcal {

/// `least`: powers of two, one or one per head, below which values would be clipped. Each below 1.0 is doubled while no
/// head that has it (with one scale: no head at all) is damaged more than at `least`, as predicted (solve/damage.h).
std::vector<float> raised_towards_one(const CacheStatistics& cache, CacheSite site, const NumberFormat& format,
                                      std::vector<float> least);

}  // namespace kvcal
