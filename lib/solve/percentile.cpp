// The quantile is exact: values are counted one by one, not binned.
#include <algorithm>

#include "base/decimal_share.h"
#include "base/error.h"
#include "base/number_text.h"
#include "solve/policies.h"

namespace kvcal {

double percentile_scale(const PolicyInput& in) {
  const MagnitudeHistogram& h = in.histogram;
  uint64_t n = h.zeros + h.under + h.over;
  for (const auto& [code, count] : h.counts) n += count;
  // The smallest rank whose share is at least the percentile, which stands for the decimal that was typed.
  const uint64_t rank = std::clamp<uint64_t>(decimal_share(in.percentile, 2, n), 1, n);

  uint64_t seen = h.zeros + h.under;
  if (seen >= rank)
    fail("the " + shortest_double(in.percentile) + "th percentile of the magnitudes is zero; choose a higher one");
  for (const auto& [code, count] : h.counts) {
    seen += count;
    if (seen >= rank) return static_cast<double>(magnitude_of(code)) / in.format.max;
  }
  return in.range / in.format.max;  // the rank lies among values above the counted range
}

}  // namespace kvcal
