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
    case CacheSite::Latent:
      return "latent";
    case CacheSite::Rope:
      return "rope";
  }
  return "";
}

uint64_t MagnitudeHistogram::observations() const {
  uint64_t n = zeros + infinities + nans + under + over;
  for (const auto& [code, count] : counts) n += count;
  return n;
}

SiteStatistics latent_row(const CacheStatistics& cache) {
  SiteStatistics row = cache.at(CacheSite::Latent);
  const SiteStatistics& rope = cache.at(CacheSite::Rope);
  row.heads.insert(row.heads.end(), rope.heads.begin(), rope.heads.end());
  if (!rope.heads.empty()) row.heads.back().where.channel += cache.layout.latent_dim;
  row.channels.insert(row.channels.end(), rope.channels.begin(), rope.channels.end());
  const auto raise = [](std::vector<uint16_t>& to, const std::vector<uint16_t>& from) {
    if (to.size() < from.size()) to.resize(from.size());
    for (size_t i = 0; i < from.size(); ++i) to[i] = std::max(to[i], from[i]);
  };
  raise(row.position_absmax, rope.position_absmax);
  raise(row.prompt_absmax, rope.prompt_absmax);
  raise(row.kind_absmax, rope.kind_absmax);
  return row;
}

float magnitude_of(uint16_t code) { return to_float(bf16{code}); }

float absmax_of(const SiteStatistics& site) {
  uint16_t code = 0;
  for (const HeadStatistics& head : site.heads) code = std::max(code, head.absmax);
  return magnitude_of(code);
}

std::span<const CacheSite> sites_of(const KvLayout& layout) {
  static constexpr std::array gqa = {CacheSite::Key, CacheSite::Value, CacheSite::Query};
  static constexpr std::array mla = {CacheSite::Latent, CacheSite::Rope, CacheSite::Query};
  return layout.is_mla() ? mla : gqa;
}

int64_t heads_of(const KvLayout& layout, CacheSite site) {
  if (site == CacheSite::Query) return layout.n_heads;
  return std::ranges::count(sites_of(layout), site) > 0 ? layout.n_kv_heads : 0;
}

int64_t width_of(const KvLayout& layout, CacheSite site) {
  switch (site) {
    case CacheSite::Key:
    case CacheSite::Query:
      return layout.head_dim_k;
    case CacheSite::Value:
      return layout.head_dim_v;
    case CacheSite::Latent:
      return layout.latent_dim;
    case CacheSite::Rope:
      return layout.head_dim_k - layout.latent_dim;
  }
  return 0;
}

int64_t pairs_of(const KvLayout& layout, CacheSite site) {
  const bool turns = site == (layout.is_mla() ? CacheSite::Rope : CacheSite::Key);
  return turns && layout.pair_bound != PairBound::None ? layout.rotary_dim / 2 : 0;
}

std::pair<int64_t, int64_t> pair_channels(const KvLayout& layout, int64_t pair) {
  if (layout.pair_bound == PairBound::Gptj) return {2 * pair, 2 * pair + 1};
  return {pair, pair + layout.rotary_dim / 2};
}

}  // namespace kvcal
