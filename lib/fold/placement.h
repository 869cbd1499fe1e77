// Where in a format's range the values of a site should lie at scale 1.0, and the powers of two that bring them there.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "solve/format.h"
#include "stats/statistics.h"

namespace kvcal {

/// What gets an exponent of its own: the whole site, each head, or each channel (both of a rotary pair together).
enum class Balance : uint8_t { Tensor, Head, Channel };
std::string_view name_of(Balance balance);  // "tensor", "head", "channel"
Balance balance_from_name(std::string_view name);

/// What a model's weights leave to choose.
struct PlacementLimits {
  bool heads_together = false;  // one weight serves the same channel of all heads
  bool pairs_together = false;  // RoPE mixes the channels of a pair after the weights
};

/// One for each channel [heads · width] of the site: powers of two that its values are to be multiplied by, none more
/// than 16 above that of the largest. Rotary pairs count with the norm that they may have at other positions.
std::vector<int> place(const CacheStatistics& cache, CacheSite site, const NumberFormat& format, Balance balance,
                       const PlacementLimits& limits);

}  // namespace kvcal
