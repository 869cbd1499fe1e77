// Which power of two: the one nearest to 1.0 that loses nothing.
//
// A floating-point format rounds a value that is normal at two powers of two to the same number at both. They differ in
// what they clip and in what they make subnormal alone: a smaller one can only clip more, and a larger one only lose
// more at the bottom. So the least that clips nothing is as good as any. 1.0 is what a server has that loads no scales:
// it is taken where a departure would not buy a tenth of the site's rounding error, else the nearest to it at which
// nothing is lost.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "solve/format.h"
#include "stats/statistics.h"

namespace kvcal {

/// Why a scale is not 1.0, where the policy asks (PolicyEntry::seeks_one).
enum class Departure : uint8_t {
  Clipped,     // the range that it provides for is beyond the largest stored number
  Headroom,    // it is not, but leaves less than the headroom that was asked for
  SmallValues  // 1.0 would lose some, which the scale keeps
};
std::string_view name_of(Departure departure);  // "clipped", "headroom", "small_values"
Departure departure_from_name(std::string_view name);

/// `range`: what the scale provides for. None of 1.0.
std::optional<Departure> departure_of(float scale, double range, const NumberFormat& format);

/// `least`: powers of two, one or one per head, below which values would be clipped. Those below 1.0 become the nearest
/// to it that are as good for each head that has them (with one scale: for all), as predicted (solve/damage.h).
std::vector<float> raised_towards_one(const CacheStatistics& cache, CacheSite site, const NumberFormat& format,
                                      std::vector<float> least);

}  // namespace kvcal
