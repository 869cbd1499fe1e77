#include <gtest/gtest.h>

#include <cmath>

#include "artifact/e8m0_scale.h"
#include "base/error.h"
#include "fold/placement.h"
#include "unit/solve_synthetic.h"
#include "unit/solved_artifact.h"

namespace kvcal {
namespace {

TEST(Placement, PutsTheLargestValueTwoOctavesBelowTheMaximum) {
  const NumberFormat& e4m3 = number_format("fp8_e4m3");
  for (const double largest : {1e-30, 0.01, 55.9, 56.0, 56.1, 111.9, 112.0, 112.1, 448.0, 1e30}) {
    const double placed = std::ldexp(largest, placing_exponent(largest, e4m3));
    EXPECT_GT(placed, 56) << largest;
    EXPECT_LE(placed, 112) << largest;
  }
  EXPECT_EQ(placing_exponent(112, e4m3), 0);
  EXPECT_EQ(placing_exponent(56, e4m3), 1);
  EXPECT_EQ(placing_exponent(0, e4m3), 0);
}

TEST(Placement, LeavesIntegersNoOctave) {
  const NumberFormat& int8 = number_format("int8");
  EXPECT_EQ(placing_exponent(127, int8), 0);
  EXPECT_EQ(placing_exponent(128, int8), -1);
  EXPECT_EQ(placing_exponent(1, int8), 6);
}

/// Two heads of four channels; channels 0 and 2, and 1 and 3, are rotary pairs.
CacheStatistics keys(std::vector<float> absmax, std::vector<double> pair_norm) {
  CacheStatistics cache;
  cache.layout.n_heads = cache.layout.n_kv_heads = 2;
  cache.layout.head_dim_k = cache.layout.head_dim_v = 4;
  cache.layout.rotary_dim = 4;
  cache.layout.pair_bound = PairBound::Neox;
  SiteStatistics& site = cache.at(CacheSite::Key);
  for (const float x : absmax) {
    ChannelStatistics channel;
    channel.absmax = static_cast<uint16_t>(to_bf16(x).bits);
    site.channels.push_back(channel);
  }
  site.pair_norm = std::move(pair_norm);
  return cache;
}

using Exponents = std::vector<int>;

TEST(Placement, GivesEachGroupOneExponent) {
  const CacheStatistics cache = keys({100, 1, 100, 0.25, 7, 0, 0, 0}, {100, 1, 7, 0});
  const NumberFormat& f = number_format("fp8_e4m3");
  const auto placed = [&](Balance b, PlacementLimits limits) { return place(cache, CacheSite::Key, f, b, limits); };
  EXPECT_EQ(placed(Balance::Tensor, {}), Exponents(8, 0));
  EXPECT_EQ(placed(Balance::Head, {}), (Exponents{0, 0, 0, 0, 4, 4, 4, 4}));
  EXPECT_EQ(placed(Balance::Head, {.heads_together = true}), Exponents(8, 0));
  EXPECT_EQ(placed(Balance::Channel, {.pairs_together = true}), (Exponents{0, 6, 0, 6, 4, 0, 4, 0}));
  EXPECT_EQ(placed(Balance::Channel, {.heads_together = true, .pairs_together = true}),
            (Exponents{0, 6, 0, 6, 0, 6, 0, 6}));
}

// At another position a pair may turn into one of its channels.
TEST(Placement, CountsTheNormOfAPair) {
  const CacheStatistics cache = keys({100, 1, 100, 1, 1, 1, 1, 1}, {141.5, 1, 1, 1});
  EXPECT_EQ(place(cache, CacheSite::Key, number_format("fp8_e4m3"), Balance::Tensor, {}), Exponents(8, -1));
}

TEST(Placement, ChannelsOfTheirOwnNeedNoPairs) {
  const CacheStatistics cache = keys({100, 1, 50, 0.25, 7, 0, 0, 0}, {});
  EXPECT_EQ(place(cache, CacheSite::Key, number_format("fp8_e4m3"), Balance::Channel, {}),
            (Exponents{0, 6, 1, 8, 4, 0, 0, 0}));
}

TEST(Placement, LiftsNearlyDeadChannelsNoFurtherThanSixteenOctaves) {
  const CacheStatistics cache = keys({100, 1e-30f, 0x1p-12f, 0, 1, 1, 1, 1}, {});
  EXPECT_EQ(place(cache, CacheSite::Key, number_format("fp8_e4m3"), Balance::Channel, {}),
            (Exponents{0, 16, 16, 0, 6, 6, 6, 6}));
}

TEST(Placement, KnowsTheNamesOfBalances) {
  EXPECT_EQ(balance_from_name("channel"), Balance::Channel);
  EXPECT_THROW(balance_from_name("heads"), Error);
}

/// Scales in a checkpoint are those that fold would put into the weights.
TEST(Placement, IsWhatAnE8m0ScaleOfValuesSays) {
  SyntheticRun run;
  run.layout = small_layout(0);
  run.key = gaussian(4, 1);
  run.value = gaussian(0.5, 2);
  run.query = gaussian(4, 3);
  Statistics statistics = synthetic_statistics(run);
  std::vector<ChannelStatistics>& channels = statistics.caches[0].at(CacheSite::Value).channels;
  channels[1].absmax = static_cast<uint16_t>(to_bf16(0x1p-30F).bits);  // nearly dead
  channels[2].absmax = 0;
  for (const double headroom : {1.0, 2.0, 3.0}) {
    SolveOptions options = absmax_options();
    options.format = "int8";
    options.granularity = Granularity::Channel;
    options.headroom = headroom;
    const Artifact artifact = solved_artifact(statistics, options);
    std::vector<int> exponents = value_exponents(artifact.layers[0].value, artifact.quantization);
    for (int& e : exponents) e = -e;
    EXPECT_EQ(exponents, place(statistics.caches[0], CacheSite::Value, number_format("fp8_e4m3"), Balance::Channel, {}))
        << headroom;
  }
}

}  // namespace
}  // namespace kvcal
