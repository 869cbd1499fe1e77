// The power of two nearest to 1.0, on sites where what is lost at 1.0 is known.
#include <gtest/gtest.h>

#include <cmath>

#include "solve/damage.h"
#include "solve/pow2.h"
#include "solve/solve.h"
#include "unit/solve_synthetic.h"

namespace kvcal {
namespace {

const NumberFormat& fp8() { return number_format("fp8_e4m3"); }

SolveOptions pow2(const char* format = "fp8_e4m3", Granularity granularity = Granularity::Tensor) {
  SolveOptions options;
  options.policy = "pow2";
  options.format = format;
  options.granularity = granularity;
  options.max_model_len = 1;  // keys are not turned further than they were seen
  return options;
}

SolvedCache solved(const SyntheticRun& run, const SolveOptions& options = pow2()) {
  const Statistics s = synthetic_statistics(run);
  return solve_cache(s.caches[0], s.run, options);
}

TEST(NearestToOne, OrdinarySitesStayAtOne) {
  for (const double sigma : {0.25, 1.0, 16.0, 50.0}) {
    SyntheticRun run;
    run.key = gaussian(sigma, 1);
    run.value = gaussian(sigma, 2);
    run.query = gaussian(1, 3);
    const SolvedCache cache = solved(run);
    EXPECT_EQ(cache.key.scale, 1) << sigma;
    EXPECT_EQ(cache.value.scale, 1) << sigma;
    EXPECT_EQ(cache.query.scale, 1) << sigma;
  }
}

TEST(NearestToOne, WhatWouldBeClippedGetsTheLeastThatDoesNot) {
  SyntheticRun run = ordinary_run();
  run.value = [v = gaussian(1, 2)](const Provenance& where) mutable { return where.token == 3 ? 1000.0F : v(where); };
  EXPECT_EQ(solved(run).value.scale, 8);  // 1000 · 2 / 448 = 4.5
}

// At half of the answer all is as good; at twice the answer it is not.
TEST(NearestToOne, SmallValuesGetTheLargestThatLosesNothing) {
  for (const double sigma : {1e-2, 1e-3, 1e-5}) {
    SyntheticRun run = ordinary_run();
    run.value = gaussian(sigma, 2);
    const CacheStatistics cache = synthetic_cache(run);
    const float scale = solved(run).value.scale;
    EXPECT_LT(scale, 1) << sigma;
    const auto rel_at = [&](float s) { return predict_damage(cache, CacheSite::Value, fp8(), std::span(&s, 1)).rel; };
    EXPECT_LT(rel_at(scale), 1.02 * rel_at(scale / 2)) << sigma;
    EXPECT_GT(rel_at(2 * scale), 1.01 * rel_at(scale)) << sigma;
  }
}

// Less than a tenth of the error is no reason to depend on a server.
TEST(NearestToOne, ADepartureHasToBuySomething) {
  int n_worse_at_one = 0;
  for (const double sigma : {0.16, 0.12, 0.09, 0.07, 0.05, 0.035, 0.025}) {
    SyntheticRun run = ordinary_run();
    run.value = gaussian(sigma, 2);
    const CacheStatistics cache = synthetic_cache(run);
    const auto rel_at = [&](float s) { return predict_damage(cache, CacheSite::Value, fp8(), std::span(&s, 1)).rel; };
    const double buys = rel_at(1) / rel_at(0x1p-7F);
    EXPECT_EQ(solved(run).value.scale == 1, buys <= 1.1) << sigma << " buys " << buys;
    n_worse_at_one += buys > 1.01 && buys <= 1.1;
  }
  EXPECT_GT(n_worse_at_one, 0);
}

// A head, and tokens, that are a small part of the site's energy.
TEST(NearestToOne, NoHeadAndNoTokenIsLostForTheOthers) {
  SyntheticRun heads = ordinary_run();
  heads.value = [v = gaussian(1, 2)](const Provenance& where) mutable { return v(where) * (where.head ? 1e-3F : 1); };
  EXPECT_LT(solved(heads).value.scale, 0x1p-4F);
  EXPECT_EQ(solved(heads, pow2("fp8_e4m3", Granularity::Head)).value.scale_per_head[0], 1);
  EXPECT_LT(solved(heads, pow2("fp8_e4m3", Granularity::Head)).value.scale_per_head[1], 0x1p-4F);

  SyntheticRun tokens = ordinary_run();
  tokens.value = [v = gaussian(1, 2)](const Provenance& where) mutable {
    return v(where) * (where.token % 4 ? 1 : 1e-3F);
  };
  EXPECT_LT(solved(tokens).value.scale, 1);
}

// One that queries look at a thousand times as closely.
TEST(NearestToOne, AChannelOfKeysThatCountsIsKept) {
  SyntheticRun run = ordinary_run();
  run.key = [v = gaussian(1, 1)](const Provenance& where) mutable {
    return v(where) * (where.channel == 9 ? 1e-3F : 1);
  };
  EXPECT_EQ(solved(run).key.scale, 1);
  run.query = [v = gaussian(1, 3)](const Provenance& where) mutable {
    return v(where) * (where.channel == 9 ? 1e3F : 1);
  };
  EXPECT_LT(solved(run).key.scale, 1);
}

TEST(NearestToOne, IntegersLoseAtAnyLargerScale) {
  const SolvedCache cache = solved(ordinary_run(), pow2("int8"));
  EXPECT_GE(cache.value.scale, cache.value.absmax / 127);
  EXPECT_LT(cache.value.scale, 2 * cache.value.absmax / 127);
}

TEST(NearestToOne, RowsOfMlaHaveOne) {
  const SolvedCache cache = solved(latent_run());
  EXPECT_EQ(cache.latent.scale, 1);
  SyntheticRun small = latent_run();
  small.latent = gaussian(1e-4, 1);
  EXPECT_LT(solved(small).latent.scale, 1);
}

}  // namespace
}  // namespace kvcal
