// Which rung of what was sampled stands for a scale, and the ratio to it.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "solve/head_change.h"
#include "solve/sampled_damage.h"
#include "unit/solve_synthetic.h"

namespace kvcal {
namespace {

/// Values whose output changes by 2^rung at each rung from -4 on, up to `most`, for so many of 10 tokens.
CacheStatistics tried_values(uint64_t tokens, int most) {
  CacheStatistics cache = synthetic_statistics(ordinary_run()).caches[0];
  for (int rung = -4; rung <= most; ++rung) {
    SampledSum sum{SampledFigure::LayerChange, SampleFormat::E4m3, 0, 0, rung, 1, rung == kRungOfOne ? 10 : tokens};
    sum.worst = static_cast<uint64_t>(std::ldexp(1 / kSampledUnit, 2 * rung));
    sum.sum = sum.worst * sum.tokens;
    cache.at(CacheSite::Value).sampled.push_back(sum);
  }
  return cache;
}

/// Values of two heads, the second so many times as large, whose output changes by 2^rung at each rung.
CacheStatistics tried_heads(float times) {
  SyntheticRun run = ordinary_run();
  const Signal value = run.value;
  run.value = [value, times](const Provenance& where) { return (where.head == 1 ? times : 1) * value(where); };
  CacheStatistics cache = synthetic_statistics(run).caches[0];
  for (int32_t head = 0; head < 4; ++head) {
    for (int rung = -4; rung <= 0; ++rung) {
      SampledSum sum{SampledFigure::ValueChange, SampleFormat::E4m3, 0, head, rung, 1, 10};
      sum.worst = static_cast<uint64_t>(std::ldexp(1 / kSampledUnit, 2 * rung));
      sum.sum = sum.worst * sum.tokens;
      cache.at(CacheSite::Value).sampled.push_back(sum);
    }
  }
  return cache;
}

double rel_of_heads(const CacheStatistics& cache, std::vector<float> scales) {
  const NumberFormat& f = number_format("fp8_e4m3");
  return *sampled_damage(cache, CacheSite::Value, f, scales, predict_damage(cache, CacheSite::Value, f, scales))->rel;
}

TEST(SampledDamage, OfHeadsIsThatOfTheWorstOneByItsOwnRatio) {
  const CacheStatistics cache = tried_heads(1);
  EXPECT_EQ(rel_of_heads(cache, {0.5F, 0.0625F}), 0.5);

  const auto predicted = [&](std::vector<float> scales) {
    return predict_head_changes(cache, number_format("fp8_e4m3"), scales);
  };
  const double ratio = predicted({0.5F, 0.3F})[1].rel / predicted({0.5F, 0.5F})[1].rel;
  ASSERT_NE(ratio, 1);
  EXPECT_NEAR(rel_of_heads(cache, {0.0625F, 0.3F}), 0.5 * ratio, 1e-6);
}

TEST(SampledDamage, AHeadThatHardlyCountsDecidesNothing) {
  EXPECT_EQ(rel_of_heads(tried_heads(0x1p-10F), {0.0625F, 0.5F}), 0.0625);
  EXPECT_EQ(rel_of_heads(tried_heads(0.25F), {0.0625F, 0.5F}), 0.5) << "a sixteenth of the other's";
}

std::optional<double> rel_at(const CacheStatistics& cache, const char* format, float scale) {
  const std::span<const float> scales(&scale, 1);
  const NumberFormat& f = number_format(format);
  const auto damage =
      sampled_damage(cache, CacheSite::Value, f, scales, predict_damage(cache, CacheSite::Value, f, scales));
  return damage ? damage->rel : std::nullopt;
}

TEST(SampledDamage, IsThatAtThePowerOfTwoItself) {
  const CacheStatistics cache = tried_values(9, 1);
  for (const float scale : {0.0625F, 0.125F, 1.0F, 2.0F}) {
    EXPECT_EQ(rel_at(cache, "fp8_e4m3", scale), scale);
    EXPECT_EQ(rel_at(cache, "fp8_e4m3fnuz", 2 * scale), scale) << "E4M3's sibling has half its range";
  }
}

TEST(SampledDamage, IsThatNearbyTimesTheRatioThatIsPredicted) {
  const CacheStatistics cache = tried_values(9, 1);
  const auto predicted = [&](float scale) {
    return predict_damage(cache, CacheSite::Value, number_format("fp8_e4m3"), std::span(&scale, 1)).rel_raw;
  };
  EXPECT_NEAR(*rel_at(cache, "fp8_e4m3", 0.34F), 0.5 * predicted(0.34F) / predicted(0.5F), 1e-6);
  EXPECT_NEAR(*rel_at(cache, "fp8_e4m3", 4), 2 * predicted(4) / predicted(2), 1e-6) << "the largest that was tried";
}

TEST(SampledDamage, IsNotKnownWhereItWasNotTried) {
  EXPECT_EQ(rel_at(tried_values(9, 1), "fp8_e4m3", 1024), std::nullopt);
  EXPECT_EQ(rel_at(tried_values(8, 1), "fp8_e4m3", 0.5F), std::nullopt) << "eight tokens in ten";
}

}  // namespace
}  // namespace kvcal
