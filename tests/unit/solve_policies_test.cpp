// Policies by their properties, and against scales that can be worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "solve/error_model.h"
#include "solve/policies.h"
#include "solve/solve.h"
#include "stats/queries.h"
#include "unit/solve_synthetic.h"

namespace kvcal {
namespace {

const NumberFormat& fp8() { return number_format("fp8_e4m3"); }
const NumberFormat& int8() { return number_format("int8"); }

/// Histogram of `n` normal numbers, some with a heavier tail.
MagnitudeHistogram sampled(double sigma, unsigned seed, int n = 20000) {
  Signal signal = gaussian(sigma, seed);
  std::map<uint16_t, uint64_t> codes;
  MagnitudeHistogram h;
  for (int i = 0; i < n; ++i) ++codes[static_cast<uint16_t>(to_bf16(signal({})).bits & 0x7FFF)];
  h.zeros = codes[0];
  codes.erase(0);
  h.counts.assign(codes.begin(), codes.end());
  return h;
}

double absmax_in(const MagnitudeHistogram& h) { return magnitude_of(h.counts.back().first); }

double squared_error(const MagnitudeHistogram& h, const NumberFormat& format, double scale) {
  double sum = 0;
  for (const auto& [code, count] : h.counts) {
    const double x = magnitude_of(code), d = round_trip(format, x, scale) - x;
    sum += static_cast<double>(count) * d * d;
  }
  return sum;
}

TEST(Policies, TableIsCompleteAndKnowsNearNames) {
  EXPECT_EQ(policy_names(), (std::vector<std::string>{"absmax", "pow2", "percentile", "mse", "kl"}));
  try {
    policy_named("abs-max");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("absmax"), std::string::npos) << e.what();
  }
  for (const PolicyEntry& p : policies()) EXPECT_FALSE(p.summary.empty());
}

TEST(Absmax, IsRangeTimesHeadroomOverMax) {
  const MagnitudeHistogram h = sampled(1, 1);
  EXPECT_EQ(absmax_scale({h, fp8(), 448, 1, 100}), 1);
  EXPECT_EQ(absmax_scale({h, fp8(), 448, 2, 100}), 2);
  EXPECT_EQ(absmax_scale({h, number_format("fp8_e4m3fnuz"), 240, 2, 100}), 2);
  EXPECT_EQ(absmax_scale({h, int8(), 127, 1, 100}), 1);
}

TEST(Absmax, NeverClipsWhatWasMeasured) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    const MagnitudeHistogram h = sampled(std::exp2(static_cast<double>(seed) - 25), seed, 300);
    const float scale = scale_rounded_up(absmax_scale({h, fp8(), absmax_in(h), 1, 100}));
    EXPECT_EQ(error_of(h, fp8(), scale).clipped, 0) << seed;
  }
}

TEST(Pow2, IsTheNextPowerOfTwo) {
  const MagnitudeHistogram h = sampled(1, 1);
  for (const double range : {1e-30, 0.3, 1.0, 100.0, 448.0, 449.0, 847.5, 18640.0, 1e30}) {
    const PolicyInput in = {h, fp8(), range, 2, 100};
    const double scale = pow2_scale(in);
    int exponent = 0;
    EXPECT_EQ(std::frexp(scale, &exponent), 0.5) << range;
    EXPECT_GE(scale, absmax_scale(in)) << range;
    EXPECT_LT(scale, 2 * absmax_scale(in)) << range;
  }
  EXPECT_EQ(pow2_scale({h, fp8(), 448, 1, 100}), 1);  // already one
}

TEST(Pow2, SmallDriftsLeaveItUnchanged) {
  const MagnitudeHistogram h = sampled(1, 1);
  EXPECT_EQ(pow2_scale({h, fp8(), 5.0, 2, 100}), pow2_scale({h, fp8(), 5.3, 2, 100}));
}

TEST(Percentile, OfAHundredIsAbsmaxWithoutHeadroom) {
  const MagnitudeHistogram h = sampled(3, 4);
  EXPECT_EQ(percentile_scale({h, fp8(), absmax_in(h), 8, 100}), absmax_in(h) / 448);
}

TEST(Percentile, GrowsWithThePercentileAndClipsNoMoreThanItSays) {
  const MagnitudeHistogram h = sampled(3, 4);
  double before = 0;
  for (const double p : {50.0, 90.0, 99.0, 99.9, 99.99, 100.0}) {
    const double scale = percentile_scale({h, fp8(), absmax_in(h), 1, p});
    EXPECT_GE(scale, before);
    EXPECT_LE(error_of(h, fp8(), scale_rounded_up(scale)).clipped, 1 - p / 100 + 1e-12);
    before = scale;
  }
}

TEST(Percentile, CountsZerosAndRanksExactly) {
  // Values 0 0 1 2 4 8: three quarters of six values is rank 5.
  MagnitudeHistogram h = {{{0x3F80, 1}, {0x4000, 1}, {0x4080, 1}, {0x4100, 1}}, 2, 0, 0, 0, 0};
  EXPECT_EQ(percentile_scale({h, fp8(), 8, 1, 75}), 4.0 / 448);
  EXPECT_EQ(percentile_scale({h, fp8(), 8, 1, 50}), 1.0 / 448);
  EXPECT_THROW(percentile_scale({h, fp8(), 8, 1, 30}), Error);  // a zero
  h.over = 6;
  EXPECT_EQ(percentile_scale({h, fp8(), 1e6, 1, 75}), 1e6 / 448);  // among values above the range
}

// 99.9 % of 64,000 is 63,936; in doubles 99.9 / 100 * 64000 lies above it, whose ceiling is one value too far.
TEST(Percentile, RanksDecimalsExactly) {
  MagnitudeHistogram h = {{{0x3F80, 63936}, {0x4100, 64}}, 0, 0, 0, 0, 0};
  EXPECT_EQ(percentile_scale({h, fp8(), 8, 1, 99.9}), 1.0 / 448);
  h.counts[0].second = 63935;
  EXPECT_EQ(percentile_scale({h, fp8(), 8, 1, 99.9}), 8.0 / 448);
}

TEST(Percentile, IsTheQuantileOfTheStatistics) {
  const CacheStatistics cache = synthetic_cache(ordinary_run());
  const HeadStatistics& head = cache.at(CacheSite::Value).heads[0];
  for (const double p : {10.0, 50.0, 99.0, 99.9})
    EXPECT_EQ(percentile_scale({head.histogram, fp8(), 1, 1, p}), static_cast<double>(quantile(head, p / 100)) / 448);
}

TEST(Candidates, AreAnEighthOfAnOctaveApart) {
  const MagnitudeHistogram h = sampled(1, 1);
  const std::vector<double> c = scale_candidates({h, fp8(), 448, 2, 100});
  ASSERT_EQ(c.size(), 65U);
  EXPECT_EQ(c[32], 1);
  for (size_t i = 0; i < 65; ++i) EXPECT_NEAR(c[i] / std::exp2((static_cast<double>(i) - 32) / 8), 1, 1e-15);
}

TEST(Candidates, TiesTakeTheLargerScale) {
  const double scales[] = {1, 2, 3, 4};
  const double equal[] = {5, 1, 1.0000005, 1.1}, none[] = {5, 1, 1.000002, 1.1}, zero[] = {0, 0, 1, 2};
  EXPECT_EQ(cheapest(scales, equal), 3);
  EXPECT_EQ(cheapest(scales, none), 2);
  EXPECT_EQ(cheapest(scales, zero), 2);
}

TEST(Mse, IsNotWorseThanAnyCandidate) {
  for (unsigned seed = 1; seed <= 5; ++seed)
    for (const NumberFormat* format : {&fp8(), &int8()}) {
      const MagnitudeHistogram h = sampled(0.7, seed);
      const PolicyInput in = {h, *format, absmax_in(h), 1, 99.9};
      const double best = squared_error(h, *format, mse_scale(in)) * (1 - 2e-6);
      for (const double candidate : scale_candidates(in)) EXPECT_LE(best, squared_error(h, *format, candidate));
      EXPECT_LE(best, squared_error(h, *format, absmax_scale(in)));
    }
}

TEST(Mse, ClipsARareOutlierInInt8) {
  // One value of 60 among normal numbers: a grid that reaches 60 would cost every other value precision.
  MagnitudeHistogram h = sampled(1, 9, 200000);
  h.counts.emplace_back(to_bf16(60).bits, 1);
  const PolicyInput in = {h, int8(), 60, 1, 100};
  EXPECT_LT(mse_scale(in), 0.51 * absmax_scale(in));
  EXPECT_GT(mse_scale(in) * 127, 4);  // but not the body
}

TEST(Mse, OneValueIsStoredExactlyByTheLargestGridThatHoldsIt) {
  const MagnitudeHistogram h = {{{0x4100, 10}}, 0, 0, 0, 0, 0};  // 8
  const PolicyInput in = {h, int8(), 8, 1, 100};
  // 127 levels · 2^-k: the largest candidate at which 8 is a whole number of steps.
  const double scale = mse_scale(in);
  EXPECT_EQ(squared_error(h, int8(), scale), 0);
  EXPECT_EQ(scale, 8.0 / 127);
}

TEST(Kl, OfDataOnTheGridIsTheScaleOfTheGrid) {
  // Whole numbers 1..127, odd ones often, even ones rarely: with step 1 nothing is merged, with any larger one
  // something is, and the two that are merged can no longer be told apart.
  MagnitudeHistogram h;
  for (int i = 1; i <= 127; ++i) h.counts.emplace_back(to_bf16(static_cast<float>(i)).bits, i % 2 == 1 ? 100 : 3);
  const double scale = kl_scale({h, int8(), 127, 1, 100});
  EXPECT_EQ(scale, 1);
}

TEST(Kl, DependsOnlyOnProportions) {
  MagnitudeHistogram h = sampled(1, 12), twice = h;
  for (auto& [code, count] : twice.counts) count *= 2;
  const double range = absmax_in(h);
  EXPECT_EQ(kl_scale({h, int8(), range, 1, 100}), kl_scale({twice, int8(), range, 1, 100}));
}

TEST(Kl, CutsARareOutlierInInt8) {
  MagnitudeHistogram h = sampled(1, 9, 200000);
  h.counts.emplace_back(to_bf16(60).bits, 1);
  const PolicyInput in = {h, int8(), 60, 1, 100};
  EXPECT_LT(kl_scale(in), 0.5 * absmax_scale(in));
}

TEST(EveryPolicy, ScalesWithTheData) {
  // Data times four: scale times four, exactly (powers of two change no rounding).
  const MagnitudeHistogram h = sampled(1, 3);
  MagnitudeHistogram larger = h;
  for (auto& [code, count] : larger.counts) code = static_cast<uint16_t>(code + 2 * 128);
  for (const PolicyEntry& policy : policies())
    for (const NumberFormat* format : {&fp8(), &int8()}) {
      const double a = policy.scale({h, *format, absmax_in(h), 2, 99.9});
      const double b = policy.scale({larger, *format, absmax_in(larger), 2, 99.9});
      EXPECT_DOUBLE_EQ(b, 4 * a) << policy.name << " " << format->name;
    }
}

TEST(EveryPolicy, IsDeterministic) {
  const MagnitudeHistogram h = sampled(1, 3);
  for (const PolicyEntry& policy : policies())
    EXPECT_EQ(policy.scale({h, fp8(), absmax_in(h), 2, 99.9}), policy.scale({h, fp8(), absmax_in(h), 2, 99.9}));
}

// ------------------------------------------------------------------ options

TEST(Options, HeadroomDefaultsToTheFormats) {
  SolveOptions options;
  EXPECT_EQ(headroom_of(options), 2);
  options.format = "int8";
  EXPECT_EQ(headroom_of(options), 1);
  options.headroom = 3;
  EXPECT_EQ(headroom_of(options), 3);
}

TEST(Options, OutOfRangeAreRefusedByName) {
  const auto refused = [](const char* name, auto change) {
    SolveOptions options;
    change(options);
    try {
      check(options);
      ADD_FAILURE() << name << " was accepted";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(name), std::string::npos) << e.what();
    }
  };
  refused("policy", [](auto& o) { o.policy = "best"; });
  refused("number format", [](auto& o) { o.format = "fp7"; });
  refused("headroom", [](auto& o) { o.headroom = 0.5; });
  refused("headroom", [](auto& o) { o.headroom = std::nan(""); });
  refused("headroom", [](auto& o) { o.headroom = 1e9; });
  refused("percentile", [](auto& o) { o.percentile = 0; });
  refused("percentile", [](auto& o) { o.percentile = 100.5; });
  refused("max-model-len", [](auto& o) { o.max_model_len = -1; });
  refused("flushed tokens", [](auto& o) { o.limits.flushed_tokens = 2; });
  refused("noise", [](auto& o) { o.limits.noise = -1; });
  refused("kl", [](auto& o) { o.limits.kl = std::nan(""); });
  EXPECT_NO_THROW(check(SolveOptions{}));
  EXPECT_EQ(granularity_from_name("head"), Granularity::Head);
  EXPECT_THROW(granularity_from_name("row"), Error);
}

}  // namespace
}  // namespace kvcal
