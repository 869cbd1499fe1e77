// Scales of a whole cache: envelope, refusals, convergence.
#include "solve/solve.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "harness/message_of.h"
#include "solve/policies.h"
#include "solve/solution.h"
#include "unit/solve_synthetic.h"
#include "unit/solved_artifact.h"

namespace kvcal {
namespace {

SolvedCache solved(const Statistics& s, const SolveOptions& options = absmax_options()) {
  return solve_cache(s.caches[0], s.run, options);
}

TEST(Solve, AbsmaxWithHeadroomTwo) {
  const Statistics s = synthetic_statistics(ordinary_run());
  const SolvedCache out = solved(s);
  const double absmax = absmax_of(s.caches[0].at(CacheSite::Value));
  EXPECT_EQ(out.value.scale, scale_rounded_up(absmax * 2 / 448));
  EXPECT_EQ(out.value.absmax, absmax);
  EXPECT_FALSE(out.value.envelope);
  EXPECT_TRUE(out.value.scale_per_head.empty());
}

TEST(Solve, TakesThePolicyOfTheFormat) {
  const Statistics s = synthetic_statistics(ordinary_run());
  SolveOptions options;
  for (const std::string& format : number_format_names()) {
    options.format = format;
    EXPECT_EQ(policy_of(options).name, format == "int8" ? "absmax" : "pow2");
    EXPECT_EQ(solved(s, options).value.scale == 1, format != "int8");
    EXPECT_EQ(solved(s, options).value.departures.has_value(), format != "int8");
  }
  const auto run = s.run;
  EXPECT_EQ(scales_for(s.caches[0], CacheSite::Value, run, {}, fp8_e5m2()), std::vector{1.0F});
}

TEST(Solve, EveryPolicyAndFormatGivesScales) {
  const Statistics s = synthetic_statistics(ordinary_run());
  for (const std::string& policy : policy_names())
    for (const std::string& format : number_format_names())
      for (const Granularity granularity : {Granularity::Tensor, Granularity::Head}) {
        SolveOptions options;
        options.policy = policy;
        options.format = format;
        options.granularity = granularity;
        const SolvedCache a = solved(s, options), b = solved(s, options);
        EXPECT_GT(a.key.scale, 0) << policy << " " << format;
        EXPECT_EQ(a.key.scale, b.key.scale);
        EXPECT_EQ(a.key.scale_per_head, b.key.scale_per_head);
        EXPECT_EQ(a.key.scale_per_head.size(), granularity == Granularity::Head ? 2U : 0U);
      }
}

TEST(Solve, RefusesTheHeadsOfOneRank) {
  Statistics s = synthetic_statistics(ordinary_run());
  s.run.heads = HeadShare{0, 2, {4}};
  EXPECT_EQ(message_of([&] { solve(s, {}); }),
            "the statistics have the heads of rank 0 of 2: scales need all ranks, see 'kvcal merge'");
}

// ------------------------------------------------------------------ envelope

/// Pair (1, 5) has (3, 4): norm 5 at some other position. Channels 8.. do not turn.
SyntheticRun paired_run(float unrotated) {
  SyntheticRun run = ordinary_run();
  run.key = [unrotated](const Provenance& w) {
    return w.channel == 1 ? 3.0F : w.channel == 5 ? 4.0F : w.channel == 9 ? unrotated : 1.0F;
  };
  return run;
}

TEST(Envelope, IsTheNormOfAPairOrAChannelThatDoesNotTurn) {
  const Statistics s = synthetic_statistics(paired_run(1));
  EXPECT_EQ(key_envelope(s.caches[0]), 5.0 * (1 + 0x1p-7));
  EXPECT_EQ(key_envelope(synthetic_statistics(paired_run(7)).caches[0]), 7.0);
  EXPECT_EQ(key_envelope(s.caches[0], 1), 5.0 * (1 + 0x1p-7));
}

TEST(Envelope, CoversTheRoundingOfARotatedKey) {
  // A pair (100, 100) turned until one channel has it all, 141.42, is 142 as bf16: more than the norm.
  SyntheticRun run = ordinary_run();
  run.key = [](const Provenance& w) { return w.channel == 1 || w.channel == 5 ? 100.0F : 1.0F; };
  const double norm = std::sqrt(2.0) * 100, rounded = static_cast<double>(round_to_bf16(static_cast<float>(norm)));
  ASSERT_GT(rounded, norm - 1);
  const double envelope = *key_envelope(synthetic_statistics(run).caches[0]);
  EXPECT_GE(envelope, 142);
  EXPECT_EQ(envelope, norm * (1 + 0x1p-7));
}

TEST(Envelope, CountsWhenTheServerAllowsMoreThanWasMeasured) {
  const Statistics s = synthetic_statistics(paired_run(1));  // longest 320, the model allows 4096
  SolveOptions options = absmax_options();
  SolvedCache out = solved(s, options);
  EXPECT_TRUE(out.key.provides_for_envelope);
  EXPECT_EQ(out.key.scale, scale_rounded_up(5.0 * (1 + 0x1p-7) * 2 / 448));
  EXPECT_EQ(out.key.absmax, 4);
  options.max_model_len = 320;
  out = solved(s, options);
  EXPECT_FALSE(out.key.provides_for_envelope);
  EXPECT_EQ(out.key.envelope, 5.0 * (1 + 0x1p-7));
  EXPECT_EQ(out.key.scale, scale_rounded_up(4.0 * 2 / 448));
  options.max_model_len = 321;
  EXPECT_TRUE(solved(s, options).key.provides_for_envelope);
  EXPECT_FALSE(solved(s, options).value.provides_for_envelope);
}

TEST(Envelope, ALimitOfTheOtherListOfFrequenciesIsRefused) {
  Statistics s = synthetic_statistics(paired_run(1));
  SolveOptions options;
  options.max_model_len = 4096;
  s.run.model->longrope = {4096, "short"};
  EXPECT_EQ(max_model_len_of(s.run, options), 4096);
  options.max_model_len = 4097;
  EXPECT_THROW(max_model_len_of(s.run, options), Error);
  s.run.model->longrope->list = "long";
  EXPECT_EQ(max_model_len_of(s.run, options), 4097);
  options.max_model_len = 4096;
  EXPECT_THROW(max_model_len_of(s.run, options), Error);
}

TEST(Envelope, IsNoConcernOfPoliciesThatLookAtTheDistribution) {
  const Statistics s = synthetic_statistics(paired_run(1));
  SolveOptions options;
  options.policy = "percentile";
  options.percentile = 100;
  const SolvedCache out = solved(s, options);
  EXPECT_FALSE(out.key.provides_for_envelope);
  EXPECT_EQ(out.key.scale, scale_rounded_up(4.0 / 448));
}

TEST(Envelope, IsUnknownWithoutKnownPairs) {
  SyntheticRun run = paired_run(1);
  run.layout.pair_bound = PairBound::None;
  const Statistics s = synthetic_statistics(run);
  EXPECT_FALSE(key_envelope(s.caches[0]));
  EXPECT_EQ(solved(s).key.scale, scale_rounded_up(4.0 * 2 / 448));
}

TEST(Envelope, UnknownLengthsAreTakenForTheWorst) {
  Statistics s = synthetic_statistics(paired_run(1));
  s.run.model->max_positions = 0;
  EXPECT_TRUE(exceeds_measured_length(s.run, {}));
  SolveOptions options;
  options.max_model_len = 320;
  EXPECT_FALSE(exceeds_measured_length(s.run, options));
  s.run.calibration->longest = 0;
  EXPECT_TRUE(exceeds_measured_length(s.run, options));
}

// ------------------------------------------------------------------ refusals

class Refusal : public testing::Test {
 protected:
  Statistics statistics_ = synthetic_statistics(ordinary_run());
  HeadStatistics& head(CacheSite site, size_t h) { return statistics_.caches[0].at(site).heads[h]; }

  void expect(std::initializer_list<const char*> parts) {
    try {
      solved(statistics_);
      FAIL() << "a scale was made";
    } catch (const Error& e) {
      for (const char* part : parts) EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
    }
  }
};

TEST_F(Refusal, NoObservations) {
  statistics_.caches[0].at(CacheSite::Value) = {};
  expect({"layer 3", "layers.3.self_attn", "value", "no observations"});
}

TEST_F(Refusal, ASiteThatIsZeroThroughout) {
  for (const int i : {0, 1}) {
    HeadStatistics& h = head(CacheSite::Key, i);
    h.histogram = {{}, 10240, 0, 0, 0, 0};
    h.absmax = 0;
  }
  expect({"layer 3", "key", "all values", "8 prompts", "zero"});
}

TEST_F(Refusal, NanAndInfinity) {
  head(CacheSite::Query, 2).histogram.nans = 3;
  expect({"layer 3", "query", "head 2", "3 NaN", "prompt-10"});
  head(CacheSite::Query, 2).histogram = head(CacheSite::Query, 0).histogram;
  head(CacheSite::Query, 2).histogram.infinities = 1;
  expect({"query", "head 2", "1 infinite"});
}

TEST_F(Refusal, ValuesOutsideTheCountedRange) {
  head(CacheSite::Value, 0).histogram.over = 1;  // of about 10 000: more than one in a million
  expect({"value", "head 0", "above the range", "prompt-10"});
  head(CacheSite::Value, 0).histogram.over = 0;
  head(CacheSite::Value, 0).histogram.counts[0].second += 5'000'000;
  head(CacheSite::Value, 0).histogram.under = 4;
  EXPECT_NO_THROW(solved(statistics_));
  head(CacheSite::Value, 0).histogram.under = 6;
  expect({"value", "head 0", "6 values below"});
}

TEST_F(Refusal, AScaleThatIsNoNormalFloat) {
  SyntheticRun run = ordinary_run();
  run.value = [](const Provenance&) { return 1e-38F; };
  statistics_ = synthetic_statistics(run);
  expect({"layer 3", "value", "float32"});
}

// ------------------------------------------------------------------ convergence

TEST(Convergence, OfStationaryData) {
  SyntheticRun run = ordinary_run();
  run.n_prompts = 40;
  for (Signal* signal : {&run.key, &run.value, &run.query})
    *signal = [plain = *signal](const Provenance& w) mutable { return std::clamp(plain(w), -3.0F, 3.0F); };
  const SolvedCache out = solved(synthetic_statistics(run));
  for (const CacheSite site : sites_of(small_layout())) EXPECT_TRUE(out.at(site).growth.converged) << name_of(site);
}

TEST(Convergence, NotWhereTheLastPromptsRaiseTheMaximum) {
  SyntheticRun run = ordinary_run();
  run.value = [](const Provenance& w) { return w.prompt == 7 ? 2.0F : 1.0F; };
  const Growth growth = solved(synthetic_statistics(run)).value.growth;
  EXPECT_FALSE(growth.converged);
  EXPECT_EQ(growth.last_quarter, 1.0);
  EXPECT_EQ(growth.per_pass, (std::vector<std::optional<double>>{0.0}));
}

TEST(Convergence, NotWhereTheLastPassRaisesTheMaximum) {
  SyntheticRun run = ordinary_run();
  run.n_passes = 3;
  run.value = [](const Provenance& w) { return w.pass == 3 ? 1.5F : 1.0F; };
  const Growth growth = solved(synthetic_statistics(run)).value.growth;
  EXPECT_EQ(growth.per_pass, (std::vector<std::optional<double>>{0.0, 0.5}));
  EXPECT_EQ(growth.last_quarter, 0.0);
  EXPECT_FALSE(growth.converged);
}

TEST(Convergence, LimitDecides) {
  SyntheticRun run = ordinary_run();
  run.value = [](const Provenance& w) { return w.prompt >= 6 ? 1.125F : 1.0F; };
  const Statistics s = synthetic_statistics(run);
  EXPECT_TRUE(solved(s).value.growth.converged);
  SolveOptions options;
  options.limits.growth = 0.1;
  EXPECT_FALSE(solved(s, options).value.growth.converged);
}

TEST(Convergence, OnePromptShowsNothing) {
  SyntheticRun run = ordinary_run();
  run.n_prompts = 1;
  const Growth growth = solved(synthetic_statistics(run)).value.growth;
  EXPECT_FALSE(growth.converged);
  EXPECT_FALSE(growth.last_quarter);
}

TEST(Convergence, NotWhereOnePromptAloneSetsTheRange) {
  for (int alone = 0; alone < 16; ++alone) {  // wherever its id puts it
    SyntheticRun run = ordinary_run();
    run.n_prompts = 16;
    run.value = [&](const Provenance& w) { return w.prompt == alone && w.token == 3 ? 8.0F : 1.0F; };
    const Growth growth = solved(synthetic_statistics(run)).value.growth;
    EXPECT_FALSE(growth.converged) << "prompt " << alone;
    EXPECT_EQ(growth.depends_on, (PromptDependence{static_cast<size_t>(alone), 8.0}));
  }
}

TEST(Convergence, GrowthWithPosition) {
  SyntheticRun run = ordinary_run();
  run.value = [](const Provenance& w) { return w.position >= 256 ? 3.0F : w.position == 0 ? 2.0F : 1.0F; };
  EXPECT_EQ(solved(synthetic_statistics(run)).value.growth.position, 0.5);
  run.value = [](const Provenance& w) { return w.position == 0 ? 2.0F : 1.0F; };
  EXPECT_EQ(solved(synthetic_statistics(run)).value.growth.position, -0.5);
}

}  // namespace
}  // namespace kvcal
