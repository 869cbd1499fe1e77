// A fixture for every answer of the rule from histograms, made of tensors, not of figures: what is wrong with the layer
// must be found. (Measured answers: tests/verdicts.)
#include <gtest/gtest.h>

#include "base/error.h"
#include "solve/solve.h"
#include "solve/verdict.h"
#include "unit/solve_synthetic.h"

namespace kvcal {
namespace {

SolvedCache solved(const SyntheticRun& run, const SolveOptions& options = {}) {
  const Statistics s = synthetic_statistics(run);
  return solve_cache(s.caches[0], s.run, options);
}

Signal times(Signal signal, double factor) {
  return [=](const Provenance& w) mutable { return static_cast<float>(factor * static_cast<double>(signal(w))); };
}

/// One channel of every head multiplied.
Signal channel_times(Signal signal, int64_t channel, double factor) {
  return [=](const Provenance& w) mutable {
    return static_cast<float>((w.channel == channel ? factor : 1) * static_cast<double>(signal(w)));
  };
}

void expect(const SolvedSite& site, ScaleNeed scale, Fitness fp8, const char* what) {
  EXPECT_EQ(name_of(site.assessment.scale), name_of(scale)) << what;
  EXPECT_EQ(name_of(site.assessment.fp8), name_of(fp8)) << what;
  EXPECT_EQ(site.assessment.at_scale.by, Basis::Histogram) << what;
}

TEST(Assessment, FineAtAnyScaleWhereOneIsAsGood) {
  const SolvedCache s = solved(ordinary_run());
  for (const CacheSite site : sites_of(small_layout()))
    expect(s.at(site), ScaleNeed::Any, Fitness::Fine, std::string(name_of(site)).c_str());
}

TEST(Assessment, NeededWhereOneClips) {
  SyntheticRun run = ordinary_run();
  run.key = times(run.key, 512);
  run.query = times(run.query, 1.0 / 512);  // the same logits
  const SolvedCache s = solved(run);
  expect(s.key, ScaleNeed::Needed, Fitness::Fine, "key");
  EXPECT_TRUE(s.key.assessment.at_one.clips);
  EXPECT_FALSE(s.key.assessment.at_scale.clips);
  EXPECT_GT(s.key.at_one[0].clipped, 0.1);
  EXPECT_EQ(s.key.at_scale[0].clipped, 0);
  expect(s.value, ScaleNeed::Any, Fitness::Fine, "value");
}

TEST(Assessment, NeededWhereOneFlushes) {
  SyntheticRun run = ordinary_run();
  run.value = times(run.value, 0x1p-14);
  const SolvedCache s = solved(run);
  expect(s.value, ScaleNeed::Needed, Fitness::Fine, "value");
  EXPECT_EQ(*s.value.assessment.at_one.flushed_tokens, 1);
  EXPECT_EQ(*s.value.assessment.at_scale.flushed_tokens, 0);
  EXPECT_EQ(s.value.at_one[0].lost, 1);
  expect(s.key, ScaleNeed::Any, Fitness::Fine, "key");
}

TEST(Assessment, NeededForASingleSink) {
  // One value of 10 240 is clipped, with little of the energy: no share of values or energy would show it.
  SyntheticRun run = ordinary_run();
  run.key = [plain = gaussian(30, 5)](const Provenance& w) mutable {
    const float x = plain(w);
    return w.token == 0 && w.prompt == 2 && w.pass == 1 && w.head == 0 && w.channel == 9 ? 600.0F : x;
  };
  run.query = times(run.query, 1.0 / 30);
  const SolvedCache s = solved(run);
  EXPECT_LT(s.key.at_one[0].lost, 0.1);
  expect(s.key, ScaleNeed::Needed, Fitness::Fine, "key");
  EXPECT_EQ(s.key.assessment.at_one.decided_by, Figure::Clipped);
}

TEST(Assessment, ValuesJustAboveTheLargestAreRounded) {
  SyntheticRun run = ordinary_run();
  run.key = [plain = gaussian(30, 5)](const Provenance& w) mutable {
    const float x = plain(w);
    return w.token == 0 && w.channel == 9 ? 460.0F : x;  // -> 448, 2.6 % off: what every value may be
  };
  run.query = times(run.query, 1.0 / 30);
  const SolvedCache s = solved(run);
  EXPECT_FALSE(s.key.assessment.at_one.clips);
  expect(s.key, ScaleNeed::Any, Fitness::Fine, "key");
}

TEST(Assessment, FewTokensWithMostOfTheEnergyDoNotHideTheOthers) {
  SyntheticRun run = ordinary_run();
  run.value = [plain = gaussian(1, 31)](const Provenance& w) mutable {
    return plain(w) * (w.token == 0 ? 2e5F : 1.0F);
  };
  const SolvedCache s = solved(run);
  EXPECT_EQ(s.value.assessment.fp8, Fitness::Keep16);
  EXPECT_EQ(s.value.assessment.at_scale.decided_by, Figure::FlushedTokens);
}

TEST(Assessment, AWeakValueChannelCountsByItsWeight) {
  SyntheticRun run = ordinary_run();
  run.value = channel_times(channel_times(run.value, 0, 1000), 5, 0.001);
  expect(solved(run).value, ScaleNeed::Needed, Fitness::Fine, "as heavy as any: next to nothing of the output");

  Statistics compensated = synthetic_statistics(run);
  SiteStatistics& values = compensated.caches[0].at(CacheSite::Value);
  values.column_norms.assign(values.channels.size(), 1.0F);
  for (size_t head = 0; head < 2; ++head) {
    values.column_norms[head * 16] = 0.001F;
    values.column_norms[head * 16 + 5] = 10000;
  }
  const SolvedCache s = solve_cache(compensated.caches[0], compensated.run, {});
  expect(s.value, ScaleNeed::Any, Fitness::Keep16, "the projection makes up for it");
  EXPECT_EQ(s.value.assessment.at_scale.decided_by, Figure::Rel);
}

TEST(Assessment, WhatAllKeysHaveInCommonCancels) {
  SyntheticRun run = ordinary_run();
  run.key = [plain = gaussian(1, 5)](const Provenance& w) mutable {
    return w.channel == 3 ? 290.0F : plain(w);  // 290 -> 288, for every key
  };
  const SolvedCache s = solved(run);
  EXPECT_LT(*s.key.assessment.at_one.noise, 0.1);
  expect(s.key, ScaleNeed::Any, Fitness::Fine, "key");
}

TEST(Assessment, AnOffsetIsNoReasonToLoseWhatVaries) {
  SyntheticRun run = ordinary_run();
  run.value = [plain = gaussian(3, 5)](const Provenance& w) mutable { return 290 + plain(w); };
  const SolvedCache s = solved(run);
  EXPECT_LT(s.value.at_scale[0].error, 0.04);
  EXPECT_GT(*s.value.assessment.at_scale.rel, 0.3);
  EXPECT_EQ(s.value.assessment.fp8, Fitness::Keep16);
}

TEST(Assessment, AnOffsetVariesWithWeightsThatDoNotSumToOne) {
  SyntheticRun run = ordinary_run();
  run.layout.learned_sinks = true;
  run.value = [plain = gaussian(3, 5)](const Provenance& w) mutable { return 290 + plain(w); };
  const SolvedCache s = solved(run);
  EXPECT_LT(*s.value.assessment.at_scale.rel, 0.04);
  EXPECT_EQ(s.value.assessment.fp8, Fitness::Fine);
}

TEST(Assessment, Keep16ForAKeyChannelThatDrownsTheOthers) {
  SyntheticRun run = ordinary_run();
  run.key = channel_times(run.key, 11, 60);  // largest about 250: nothing clips at 1.0
  const SolvedCache s = solved(run);
  expect(s.key, ScaleNeed::Any, Fitness::Keep16, "key");
  EXPECT_EQ(s.key.assessment.at_scale.decided_by, Figure::Noise);
  EXPECT_GT(s.key.at_scale[0].dominating, 0.9);
}

TEST(Assessment, OneBadHeadOfManyCountsByWhatItGives) {
  SyntheticRun run = ordinary_run();
  Signal plain = gaussian(1, 31);
  run.value = [plain](const Provenance& w) mutable {
    return plain(w) * (w.head == 1 ? 1e-7F : 1.0F);  // one scale cannot serve both heads
  };
  expect(solved(run).value, ScaleNeed::Any, Fitness::Fine, "nothing comes from the small head");
  Statistics compensated = synthetic_statistics(run);
  SiteStatistics& values = compensated.caches[0].at(CacheSite::Value);
  values.column_norms.assign(16, 1.0F);
  values.column_norms.resize(32, 1e7F);
  EXPECT_EQ(solve_cache(compensated.caches[0], compensated.run, {}).value.assessment.fp8, Fitness::Keep16);
  SolveOptions per_head;
  per_head.granularity = Granularity::Head;
  const SolvedCache s = solve_cache(compensated.caches[0], compensated.run, per_head);
  expect(s.value, ScaleNeed::Needed, Fitness::Fine, "a scale for each head");
  ASSERT_EQ(s.value.scale_per_head.size(), 2U);
  EXPECT_GT(s.value.scale_per_head[0], 1e6F * s.value.scale_per_head[1]);
  EXPECT_EQ(s.value.scale, s.value.scale_per_head[0]);
  EXPECT_EQ(s.query.scale_per_head.size(), 4U);
}

TEST(Assessment, AHeadOfZerosIsANote) {
  SyntheticRun run = ordinary_run();
  run.key = [plain = gaussian(1, 5)](const Provenance& w) mutable { return w.head == 1 ? 0.0F : plain(w); };
  SolveOptions per_head;
  per_head.granularity = Granularity::Head;
  const SolvedCache s = solved(run, per_head);
  expect(s.key, ScaleNeed::Any, Fitness::Fine, "key");
  EXPECT_EQ(s.key.zero_heads, std::vector<int>{1});
  EXPECT_EQ(s.key.scale_per_head[1], 1);
  EXPECT_EQ(s.key.scale, s.key.scale_per_head[0]);
}

TEST(Assessment, Keep16WhereThePolicyClipsTooMuch) {
  SolveOptions options;
  options.policy = "percentile";
  options.percentile = 60;
  const SolvedCache s = solved(ordinary_run(), options);
  EXPECT_EQ(s.value.assessment.fp8, Fitness::Keep16);
}

TEST(Assessment, ClippedKeysAreNeverFine) {
  SolveOptions options;
  options.policy = "percentile";
  options.percentile = 99.9;
  const SolvedCache s = solved(ordinary_run(), options);
  expect(s.key, ScaleNeed::Any, Fitness::Keep16, "key");
  EXPECT_EQ(s.key.assessment.at_scale.decided_by, Figure::Clipped);
  expect(s.value, ScaleNeed::Any, Fitness::Fine, "value");
}

TEST(Assessment, Keep16ForSharpAttentionOfManyChannels) {
  SyntheticRun run = ordinary_run();
  run.key = times(run.key, 5);
  run.query = times(run.query, 5);
  const SolvedCache s = solved(run);
  EXPECT_NEAR(*s.key.assessment.at_scale.noise, 25 * 0.0265, 0.05);
  expect(s.key, ScaleNeed::Any, Fitness::Keep16, "key");
  expect(s.query, ScaleNeed::Any, Fitness::Keep16, "the same noise comes from queries");
  expect(s.value, ScaleNeed::Any, Fitness::Fine, "value");
}

TEST(Assessment, LimitsMoveIt) {
  SyntheticRun run = ordinary_run();
  run.key = times(run.key, 5);
  run.query = times(run.query, 5);
  SolveOptions options;
  options.limits.noise = 1;
  EXPECT_EQ(solved(run, options).key.assessment.fp8, Fitness::Fine);
  options.limits.noise = 0.5;
  EXPECT_EQ(solved(run, options).key.assessment.fp8, Fitness::Keep16);
}

DamageAtScale measured(double kl, double rel) {
  DamageAtScale d;
  d.by = Basis::Attention;
  d.kl = kl;
  d.rel = rel;
  judge(d, {});
  return d;
}

TEST(Assessment, TheFigureFurthestBeyondItsLimitDecides) {
  const DamageAtScale fine = measured(0.001, 0.03), kl = measured(0.03, 0.03), rel = measured(0.001, 0.4);
  EXPECT_EQ(fine.fitness, Fitness::Fine);
  EXPECT_EQ(kl.fitness, Fitness::Keep16);
  EXPECT_EQ(kl.decided_by, Figure::Kl);
  EXPECT_NEAR(kl.severity, std::sqrt(0.03 / 0.025), 1e-12);
  EXPECT_EQ(rel.fitness, Fitness::Keep16);
  EXPECT_EQ(rel.decided_by, Figure::Rel);
}

TEST(Assessment, NeededWhereOneIsClearlyWorse) {
  const auto need = [](double at_scale, double at_one) {
    return scale_need(measured(0, at_scale), measured(0, at_one));
  };
  EXPECT_EQ(need(0.03, 0.1), ScaleNeed::Needed);
  EXPECT_EQ(need(0.1, 0.03), ScaleNeed::Any) << "1.0 is the better one";
  EXPECT_EQ(need(0.1, 0.17), ScaleNeed::Any) << "worse, not clearly";
  EXPECT_EQ(need(0.01, 0.03), ScaleNeed::Any) << "neither is felt";
  EXPECT_EQ(need(0.3, 0.6), ScaleNeed::Needed) << "though it does not suffice";
  EXPECT_EQ(need(0.5, 1.0), ScaleNeed::Any) << "all is lost at both";
  DamageAtScale unseen = measured(0, 0.03);
  unseen.severity = 6, unseen.decided_by = Figure::KlUnseen;
  EXPECT_EQ(scale_need(unseen, measured(0, 3)), ScaleNeed::Needed) << "no row shows that the scale has lost it";
}

// Rows beyond the sample are left out where those in it are above the limit: a scale that is worse in every figure must
// not look better.
TEST(Assessment, AWorseScaleIsNotNeededRather) {
  const auto at = [](double kl, double unseen) {
    DamageAtScale d = measured(0.025 * kl, 0);
    d.kl_unseen = 0.025 * unseen;
    judge(d, {});
    return d;
  };
  EXPECT_EQ(scale_need(at(1.2, 90), measured(0.025 * 5, 0)), ScaleNeed::Needed);
  EXPECT_EQ(scale_need(at(0.9, 9), measured(0.025 * 5, 0)), ScaleNeed::Needed) << "it is better in both";
  EXPECT_EQ(scale_need(at(0.9, 9), measured(0.025 * 3, 0)), ScaleNeed::Any) << "not clearly worse than a limit";
  EXPECT_EQ(scale_need(at(0.9, 9), at(1.2, 90)), ScaleNeed::Any) << "1.2 is hardly more than 0.9";
}

TEST(Assessment, MeasuredFiguresDecideOverPredictedOnes) {
  DamageAtScale d = measured(0.001, 0.03);
  d.noise = 5;
  d.flushed_tokens = 1;
  d.clips = true;
  judge(d, {});
  EXPECT_EQ(d.fitness, Fitness::Fine);
  d.by = Basis::Histogram;
  judge(d, {});
  EXPECT_EQ(d.fitness, Fitness::Keep16);
  EXPECT_EQ(d.decided_by, Figure::Noise);
  EXPECT_NEAR(d.severity, 5 / 0.3, 1e-12);
}

TEST(Assessment, UnseenQueriesCountAsSeenOnes) {
  DamageAtScale d = measured(0.001, 0.03);
  const auto fitness_with = [&](double kl_unseen) {
    d.kl_unseen = kl_unseen;
    judge(d, {});
    return d.fitness;
  };
  EXPECT_EQ(fitness_with(0.024), Fitness::Fine);
  EXPECT_EQ(fitness_with(0.026), Fitness::Keep16);
  EXPECT_EQ(d.decided_by, Figure::KlUnseen);
}

DamageAtScale with_noise(double kl, double noise) {
  DamageAtScale d = measured(kl, 0.0);
  d.noise = noise;
  judge(d, {});
  return d;
}

TEST(Assessment, NoiseThatReordersLogitsCountsWhereKlIsNearItsLimit) {
  EXPECT_EQ(with_noise(0.010, 1.1).fitness, Fitness::Keep16);
  EXPECT_EQ(with_noise(0.010, 0.9).fitness, Fitness::Fine);
  EXPECT_EQ(with_noise(0.008, 1.1).fitness, Fitness::Fine);
}

// Keys of layer 10 of SmolLM2-135M, four times as far apart in noise. 1.0 is no worse, wherever a limit lies between
// them.
TEST(Assessment, WhatIsNotKnownMakesNoScaleNeeded) {
  const DamageAtScale at_scale = with_noise(0.0195, 4.1 * 0.2423), at_one = with_noise(0.0200, 4.1 * 0.2502);
  EXPECT_EQ(at_scale.fitness, Fitness::Fine);
  EXPECT_EQ(at_one.fitness, Fitness::Keep16);
  EXPECT_EQ(scale_need(at_scale, at_one), ScaleNeed::Any);
}

TEST(Verdict, IsNeverMilderThanTheAssessment) {
  const auto verdict = [](ScaleNeed scale, Fitness fp8) { return verdict_of(Assessment{scale, fp8, {}, {}}); };
  EXPECT_EQ(verdict(ScaleNeed::Any, Fitness::Fine), Verdict::Neutral);
  EXPECT_EQ(verdict(ScaleNeed::Needed, Fitness::Fine), Verdict::Needed);
  EXPECT_EQ(verdict(ScaleNeed::Any, Fitness::Keep16), Verdict::Inadequate);
  EXPECT_EQ(verdict(ScaleNeed::Needed, Fitness::Keep16), Verdict::Inadequate);
}

TEST(Verdict, NamesReadBack) {
  for (const Verdict v : {Verdict::Neutral, Verdict::Needed, Verdict::Inadequate})
    EXPECT_EQ(verdict_from_name(name_of(v)), v);
  EXPECT_THROW(verdict_from_name("fine"), Error);
}

// ------------------------------------------------------------------ joint scale

TEST(Joint, IsTheLargerAndKeepsWhatItCan) {
  SyntheticRun run = ordinary_run();
  run.value = times(run.value, 8);
  const SolvedCache s = solved(run);
  EXPECT_EQ(s.joint.scale, std::max(s.key.scale, s.value.scale));
  EXPECT_FALSE(s.joint.loses_key || s.joint.loses_value);
  EXPECT_EQ(s.joint.key_assessment.fp8, Fitness::Fine);
}

TEST(Joint, LosesTheSmallerSiteOfAStressedLayer) {
  SyntheticRun run = ordinary_run();
  run.key = times(run.key, 0x1p7);
  run.query = times(run.query, 0x1p-7);
  run.value = times(run.value, 0x1p-14);
  const SolvedCache s = solved(run);
  expect(s.value, ScaleNeed::Needed, Fitness::Fine, "with its own scale");
  EXPECT_EQ(s.joint.value_assessment.fp8, Fitness::Keep16);
  EXPECT_TRUE(s.joint.loses_value);
  EXPECT_FALSE(s.joint.loses_key);
}

TEST(Joint, DoesNotBlameItselfForWhatWasLostBefore) {
  SyntheticRun run = ordinary_run();
  run.key = channel_times(run.key, 11, 600);
  const SolvedCache s = solved(run);
  EXPECT_EQ(s.joint.key_assessment.fp8, Fitness::Keep16);
  EXPECT_FALSE(s.joint.loses_key);
}

}  // namespace
}  // namespace kvcal
