#include "fold/placement.h"

#include <algorithm>
#include <cmath>

#include "base/enum_names.h"

namespace kvcal {
namespace {

constexpr EnumNames<Balance, 3> kNames{"balance", {"tensor", "head", "channel"}};

/// The largest magnitude that each channel may have.
std::vector<double> largest_by_channel(const CacheStatistics& cache, CacheSite site) {
  const SiteStatistics& s = cache.at(site);
  const auto width = static_cast<size_t>(width_of(cache.layout, site));
  const auto pairs = static_cast<size_t>(pairs_of(cache.layout, site));
  std::vector<double> largest;
  for (const ChannelStatistics& channel : s.channels)
    largest.push_back(static_cast<double>(magnitude_of(channel.absmax)));
  if (s.pair_norm.empty()) return largest;
  for (size_t i = 0; i < s.pair_norm.size(); ++i) {
    const auto [a, b] = pair_channels(cache.layout, static_cast<int64_t>(i % pairs));
    for (const int64_t c : {a, b}) {
      double& of = largest[i / pairs * width + static_cast<size_t>(c)];
      of = std::max(of, s.pair_norm[i]);
    }
  }
  return largest;
}

/// For each channel of the site, the group that gets one exponent: by head, then by channel.
std::vector<size_t> groups(const CacheStatistics& cache, CacheSite site, Balance balance,
                           const PlacementLimits& limits) {
  const auto heads = static_cast<size_t>(heads_of(cache.layout, site));
  const auto width = static_cast<size_t>(width_of(cache.layout, site));
  std::vector<size_t> channel_group(width, 0);
  if (balance == Balance::Channel) {
    for (size_t c = 0; c < width; ++c) channel_group[c] = c;
    const int64_t pairs = limits.pairs_together ? cache.layout.rotary_dim / 2 : 0;
    for (int64_t p = 0; p < pairs; ++p) {
      const auto [a, b] = pair_channels(cache.layout, p);
      channel_group[static_cast<size_t>(b)] = static_cast<size_t>(a);
    }
  }
  const bool by_head = balance != Balance::Tensor && !limits.heads_together;
  std::vector<size_t> all;
  for (size_t h = 0; h < heads; ++h)
    for (size_t c = 0; c < width; ++c) all.push_back((by_head ? h * width : 0) + channel_group[c]);
  return all;
}

}  // namespace

std::string_view name_of(Balance balance) { return kNames[balance]; }
Balance balance_from_name(std::string_view name) { return kNames.find(name); }

std::vector<int> place(const CacheStatistics& cache, CacheSite site, const NumberFormat& format, Balance balance,
                       const PlacementLimits& limits) {
  const std::vector<double> largest = largest_by_channel(cache, site);
  const std::vector<size_t> group = groups(cache, site, balance, limits);
  std::vector<double> of_group(group.size(), 0);
  for (size_t i = 0; i < group.size(); ++i) of_group[group[i]] = std::max(of_group[group[i]], largest[i]);
  // A nearly dead channel has nothing to gain, and would take numbers of its weights out of their range.
  const double least = std::ldexp(*std::ranges::max_element(largest), -kMostPlacingSpread);
  for (double& of : of_group)
    if (of > 0) of = std::max(of, least);
  std::vector<int> exponents;
  exponents.reserve(group.size());
  for (const size_t g : group) exponents.push_back(placing_exponent(of_group[g], format));
  return exponents;
}

}  // namespace kvcal
