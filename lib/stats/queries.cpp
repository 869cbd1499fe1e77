#include "stats/queries.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace kvcal {
namespace {

/// Smallest magnitude of the 5,120 bins that a backend may restrict itself to.
constexpr float kSmallestBin = 0x1p-24f;

uint64_t finite_values(const MagnitudeHistogram& h) { return h.observations() - h.infinities - h.nans; }

/// Length of a row of prompt_absmax.
size_t prompts_of(const SiteStatistics& site, int n_passes) {
  if (n_passes < 1 || site.prompt_absmax.size() % static_cast<size_t>(n_passes) != 0)
    fail(std::to_string(site.prompt_absmax.size()) + " maxima by pass and prompt do not fit " +
         std::to_string(n_passes) + " passes");
  return site.prompt_absmax.size() / static_cast<size_t>(n_passes);
}

uint16_t pass_absmax(const SiteStatistics& site, size_t pass, size_t n_prompts) {
  const auto first = site.prompt_absmax.begin() + static_cast<ptrdiff_t>(pass * n_prompts);
  return *std::max_element(first, first + static_cast<ptrdiff_t>(n_prompts));
}

}  // namespace

float quantile(const HeadStatistics& head, double q) {
  if (!(q >= 0 && q <= 1)) fail("a quantile of " + std::to_string(q) + " was asked for, expected 0 to 1");
  const MagnitudeHistogram& h = head.histogram;
  const uint64_t n = finite_values(h);
  if (n == 0) fail("no finite value was observed, so there are no quantiles");
  const auto rank = std::max(static_cast<uint64_t>(std::ceil(q * static_cast<double>(n))), uint64_t{1});
  uint64_t below = h.zeros;
  if (below >= rank) return 0;
  if ((below += h.under) >= rank) return kSmallestBin;
  for (const auto& [code, count] : h.counts)
    if ((below += count) >= rank) return magnitude_of(code);
  return magnitude_of(head.absmax);
}

float quantile(const SiteStatistics& site, double q) { return quantile(pooled(site), q); }

const HeadStatistics& largest_head(const SiteStatistics& site) {
  return *std::ranges::min_element(site.heads, [](const HeadStatistics& a, const HeadStatistics& b) {
    return a.absmax != b.absmax ? a.absmax > b.absmax : a.where < b.where;
  });
}

HeadStatistics pooled(const SiteStatistics& site) {
  HeadStatistics all;
  MagnitudeHistogram& h = all.histogram;
  std::vector<uint64_t> codes(size_t{1} << 15);
  for (const HeadStatistics& head : site.heads) {
    for (const auto& [code, count] : head.histogram.counts) codes[code] += count;
    h.zeros += head.histogram.zeros;
    h.infinities += head.histogram.infinities;
    h.nans += head.histogram.nans;
    h.under += head.histogram.under;
    h.over += head.histogram.over;
  }
  for (size_t c = 0; c < codes.size(); ++c)
    if (codes[c] != 0) h.counts.emplace_back(static_cast<uint16_t>(c), codes[c]);
  if (site.heads.empty()) return all;
  all.absmax = largest_head(site).absmax;
  all.where = largest_head(site).where;
  return all;
}

std::vector<PassGrowth> pass_growth(const SiteStatistics& site, int n_passes) {
  std::vector<PassGrowth> growth;
  const size_t n_prompts = prompts_of(site, n_passes);
  if (n_prompts == 0) return growth;
  for (int pass = 1; pass <= n_passes; ++pass) {
    const float before = growth.empty() ? 0 : growth.back().absmax;
    const float absmax = std::max(before, magnitude_of(pass_absmax(site, static_cast<size_t>(pass - 1), n_prompts)));
    double added = 0;
    if (pass > 1 && absmax > before)
      added = before > 0 ? (double{absmax} - double{before}) / double{before} : std::numeric_limits<double>::infinity();
    growth.push_back({pass, absmax, added});
  }
  return growth;
}

std::vector<float> prompt_maxima(const SiteStatistics& site, int n_passes) {
  const size_t n_prompts = prompts_of(site, n_passes);
  std::vector<uint16_t> codes(n_prompts);
  for (size_t i = 0; i < site.prompt_absmax.size(); ++i)
    codes[i % n_prompts] = std::max(codes[i % n_prompts], site.prompt_absmax[i]);
  std::vector<float> maxima;
  for (const uint16_t code : codes) maxima.push_back(magnitude_of(code));
  return maxima;
}

std::vector<float> absmax_by_prompts(const SiteStatistics& site, int n_passes) {
  std::vector<float> absmax = prompt_maxima(site, n_passes);
  for (size_t i = 1; i < absmax.size(); ++i) absmax[i] = std::max(absmax[i], absmax[i - 1]);
  return absmax;
}

double octave_unit(int octave) {
  const auto exponent = static_cast<uint64_t>(std::max(octave, 1) - 134 + 1023);
  return std::bit_cast<double>(exponent << 52);
}

double mean_square_of(const OctaveMoments& moments, uint64_t n_tokens) {
  const double unit = octave_unit(moments.octave);
  return n_tokens == 0 ? 0 : static_cast<double>(moments.sum_m2) * unit * unit / static_cast<double>(n_tokens);
}

ChannelMoments moments_of(const ChannelStatistics& channel, uint64_t n_tokens) {
  ChannelMoments moments;
  if (n_tokens == 0) return moments;
  const auto n = static_cast<double>(n_tokens);
  for (const OctaveMoments& o : channel.octaves) {
    const double unit = octave_unit(o.octave);
    moments.mean += static_cast<double>(o.signed_sum_m) * unit / n;
    moments.mean_abs += static_cast<double>(o.sum_m) * unit / n;
    moments.mean_square += mean_square_of(o, n_tokens);
  }
  return moments;
}

}  // namespace kvcal
