#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "stats/queries.h"
#include "unit/stats_fixture.h"

namespace kvcal::stats_test {
namespace {

const Statistics& sample() {
  static const Statistics s = observe_run(small_spec(), small_plan(), mixed_value);
  return s;
}

/// |x| of one head, or of all with head < 0, ascending.
std::vector<float> magnitudes(CacheSite site, int64_t head) {
  const ModelSpec spec = small_spec();
  std::vector<float> all;
  for (const Segment& s : small_plan().segments)
    for (int64_t t = 0; t < s.n_tokens; ++t)
      for (int64_t h = 0; h < heads_of(spec.caches[0], site); ++h)
        for (int64_t c = 0; c < width_of(spec.caches[0], site); ++c)
          if (head < 0 || h == head)
            all.push_back(std::fabs(round_to_bf16(mixed_value({0, site, s.sequence, s.first_position + t, h, c}))));
  std::sort(all.begin(), all.end());
  return all;
}

TEST(Quantile, IsThatOfTheSortedValues) {
  const SiteStatistics& site = sample().caches[0].at(CacheSite::Query);
  for (const int64_t head : {-1, 0, 3}) {
    const std::vector<float> sorted = magnitudes(CacheSite::Query, head);
    for (const double q : {0.0, 1e-9, 0.01, 0.25, 0.5, 0.75, 0.999, 0.9999, 1.0}) {
      const double rank = std::max(std::ceil(q * static_cast<double>(sorted.size())), 1.0);
      const float expected = sorted[static_cast<size_t>(rank) - 1];
      EXPECT_EQ(head < 0 ? quantile(site, q) : quantile(site.heads[static_cast<size_t>(head)], q), expected)
          << "head " << head << ", q " << q;
    }
  }
}

TEST(Quantile, ValuesOutsideABackendsRangeCountAtItsEnds) {
  HeadStatistics head;
  head.histogram.counts = {{0x3F80, 5}};  // 1.0
  head.histogram.zeros = 1;
  head.histogram.under = 2;
  head.histogram.over = 2;
  head.absmax = 0x4800;  // 131072
  EXPECT_EQ(quantile(head, 0.1), 0.0f);
  EXPECT_EQ(quantile(head, 0.3), 0x1p-24f);
  EXPECT_EQ(quantile(head, 0.8), 1.0f);
  EXPECT_EQ(quantile(head, 0.9), 131072.0f);
}

TEST(Quantile, RefusesWhatHasNone) {
  const HeadStatistics nothing;
  EXPECT_NE(message_of([&] { quantile(nothing, 0.5); }), "");
  for (const double q : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()})
    EXPECT_NE(message_of([&] { quantile(sample().caches[0].sites[0], q); }), "");
}

TEST(PassGrowth, TellsWhatEachPassAdded) {
  SiteStatistics site;
  site.prompt_absmax = {0x3F80, 0x4000, 0, 0x4000, 0x3F80, 0, 0x3F80, 0x4040, 0};  // 1 2 0 | 2 1 0 | 1 3 0
  const std::vector<PassGrowth> growth = pass_growth(site, 3);
  ASSERT_EQ(growth.size(), 3U);
  EXPECT_EQ(growth[0].absmax, 2.0f);
  EXPECT_EQ(growth[0].added, 0.0);
  EXPECT_EQ(growth[1].absmax, 2.0f);
  EXPECT_EQ(growth[1].added, 0.0);
  EXPECT_EQ(growth[2].pass, 3);
  EXPECT_EQ(growth[2].absmax, 3.0f);
  EXPECT_EQ(growth[2].added, 0.5);
  EXPECT_EQ(absmax_by_prompts(site, 3), (std::vector<float>{2.0f, 3.0f, 3.0f}));
  site.prompt_absmax = {0, 0x3F80};
  EXPECT_EQ(pass_growth(site, 2)[1].added, std::numeric_limits<double>::infinity());
  EXPECT_NE(message_of([&] { pass_growth(site, 3); }), "");
  EXPECT_NE(message_of([&] { absmax_by_prompts(site, 0); }), "");
}

TEST(Moments, AreThoseOfTheValues) {
  const ModelSpec spec = small_spec();
  for (const CacheSite kind : sites_of(sample().caches[0].layout)) {
    const SiteStatistics& site = sample().caches[1].at(kind);
    const int64_t width = width_of(spec.caches[1], kind);
    for (size_t i = 0; i < site.channels.size(); ++i) {
      const int64_t head = static_cast<int64_t>(i) / width, channel = static_cast<int64_t>(i) % width;
      double mean = 0, mean_abs = 0, mean_square = 0;
      for (const Segment& s : small_plan().segments)
        for (int64_t t = 0; t < s.n_tokens; ++t) {
          const double x = round_to_bf16(mixed_value({1, kind, s.sequence, s.first_position + t, head, channel}));
          mean += x / 750;
          mean_abs += std::fabs(x) / 750;
          mean_square += x * x / 750;
        }
      const ChannelMoments moments = moments_of(site.channels[i], site.n_tokens);
      EXPECT_NEAR(moments.mean_square, mean_square, 1e-12 * mean_square);
      if (kind == CacheSite::Query) continue;
      EXPECT_NEAR(moments.mean, mean, 1e-12 * mean_abs);
      EXPECT_NEAR(moments.mean_abs, mean_abs, 1e-12 * mean_abs);
    }
  }
}

TEST(Moments, SubnormalsAndNothing) {
  EXPECT_EQ(octave_unit(0), std::ldexp(1.0, -133));
  EXPECT_EQ(octave_unit(1), std::ldexp(1.0, -133));
  EXPECT_EQ(octave_unit(127), std::ldexp(1.0, -7));
  EXPECT_EQ(octave_unit(254), std::ldexp(1.0, 120));
  EXPECT_EQ(moments_of({}, 0).mean_square, 0.0);
  const ChannelStatistics channel{0x0001, {{0, 2, 1, 1, -1}}};  // a zero and the smallest subnormal, negative
  EXPECT_EQ(moments_of(channel, 2).mean, -std::ldexp(1.0, -134));
  EXPECT_EQ(moments_of(channel, 2).mean_square, std::ldexp(1.0, -267));
}

}  // namespace
}  // namespace kvcal::stats_test
