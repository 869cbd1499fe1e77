#include "stats/statistics.h"

#include <algorithm>

#include "tensor/dtype.h"

namespace kvcal {

std::string_view name_of(CacheSite site) {
  switch (site) {
    case CacheSite::Key:
      return "key";
    case CacheSite::Value:
      return "value";
    case CacheSite::Query:
      return "query";
  }
  return "";
}

uint64_t MagnitudeHistogram::observations() const {
  uint64_t n = zeros + infinities + nans + under + over;
  for (const auto& [code, count] : counts) n += count;
  return n;
}

float magnitude_of(uint16_t code) { return to_float(bf16{code}); }

float absmax_of(const SiteStatistics& site) {
  uint16_t code = 0;
  for (const HeadStatistics& head : site.heads) code = std::max(code, head.absmax);
  return magnitude_of(code);
}

int64_t heads_of(const KvLayout& layout, CacheSite site) {
  return site == CacheSite::Query ? layout.n_heads : layout.n_kv_heads;
}

int64_t width_of(const KvLayout& layout, CacheSite site) {
  return site == CacheSite::Value ? layout.head_dim_v : layout.head_dim_k;
}

int64_t pairs_of(const KvLayout& layout, CacheSite site) {
  return site == CacheSite::Key && layout.pair_bound != PairBound::None ? layout.rotary_dim / 2 : 0;
}

std::pair<int64_t, int64_t> pair_channels(const KvLayout& layout, int64_t pair) {
  if (layout.pair_bound == PairBound::Gptj) return {2 * pair, 2 * pair + 1};
  return {pair, pair + layout.rotary_dim / 2};
}

}  // namespace kvcal
