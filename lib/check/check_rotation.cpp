// Were keys measured after their rotation, as a cache stores them? A constant part of a key channel, such as a bias, is
// turned by the position: over a long text it averages out in the pair that turns fastest. Where that pair keeps a
// mean, the keys were not turned.
#include <cmath>

#include "check/artifact_checks.h"

namespace kvcal {
namespace {

// The fastest pair turns by at least 1/8 radian per token (linear scaling by 8), which leaves 16 / n of a constant
// after n tokens: 0.25 after 64.
constexpr double kMostMean = 0.5;
constexpr uint64_t kLeastTokens = 64;

struct Moments {
  double mean = 0, square = 0;  // of the values
};

Moments moments_of(const ChannelStatistics& channel) {
  double sum = 0, squares = 0, n = 0;
  for (const OctaveMoments& o : channel.octaves) {
    const double unit = std::ldexp(1.0, std::max<int>(o.octave, 1) - 134);
    sum += unit * static_cast<double>(o.signed_sum_m);
    squares += unit * unit * static_cast<double>(o.sum_m2);
    n += static_cast<double>(o.count);
  }
  return n > 0 ? Moments{sum / n, squares / n} : Moments{};
}

/// How much of the fastest pair is a constant: 0 .. 1, the largest over heads.
double constant_part(const CacheStatistics& cache) {
  const SiteStatistics& key = cache.at(CacheSite::Key);
  const auto [first, second] = pair_channels(cache.layout, 0);
  double largest = 0;
  for (int64_t head = 0; head < cache.layout.n_kv_heads; ++head) {
    const auto at = [&](int64_t channel) {
      return moments_of(key.channels[static_cast<size_t>(head * cache.layout.head_dim_k + channel)]);
    };
    const Moments a = at(first), b = at(second);
    const double square = a.square + b.square;
    if (square > 0) largest = std::max(largest, std::sqrt((a.mean * a.mean + b.mean * b.mean) / square));
  }
  return largest;
}

}  // namespace

void check_rotation(const Statistics& statistics, Report& report) {
  const auto n_sequences =
      static_cast<uint64_t>(statistics.run.prompt_ids.size()) * static_cast<uint64_t>(statistics.run.n_passes);
  for (const CacheStatistics& cache : statistics.caches) {
    const SiteStatistics& key = cache.at(CacheSite::Key);
    if (cache.layout.is_mla() || cache.layout.pair_bound == PairBound::None || cache.layout.rotary_dim < 2) continue;
    if (n_sequences == 0 || key.n_tokens / n_sequences < kLeastTokens) continue;
    report.evaluated({"K07"});
    if (const double part = constant_part(cache); part > kMostMean)
      report.add("K07", cache.layout.name, "the constant part of the fastest-rotating pair of key channels",
                 "at most " + number_text(kMostMean), number_text(std::round(part * 100) / 100));
  }
}

}  // namespace kvcal
