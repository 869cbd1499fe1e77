// A fixture for every verdict, made of tensors, not of figures: what is wrong with the layer must be found.
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

TEST(Verdict, NeutralWhereOneIsAsGood) {
  const SolvedCache s = solved(ordinary_run());
  for (const CacheSite site : sites_of(small_layout()))
    EXPECT_EQ(s.at(site).verdict, Verdict::Neutral) << name_of(site);
}

TEST(Verdict, NeededWhereOneClips) {
  SyntheticRun run = ordinary_run();
  run.key = times(run.key, 512);
  run.query = times(run.query, 1.0 / 512);  // the same logits
  const SolvedCache s = solved(run);
  EXPECT_EQ(s.key.verdict, Verdict::Needed);
  EXPECT_GT(s.key.at_one[0].clipped, 0.1);
  EXPECT_EQ(s.key.at_scale[0].clipped, 0);
  EXPECT_EQ(s.query.verdict, Verdict::Needed);  // now below 2^-6
  EXPECT_EQ(s.value.verdict, Verdict::Neutral);
}

TEST(Verdict, NeededWhereOneFlushes) {
  SyntheticRun run = ordinary_run();
  run.value = times(run.value, 0x1p-14);
  const SolvedCache s = solved(run);
  EXPECT_EQ(s.value.verdict, Verdict::Needed);
  EXPECT_EQ(s.value.at_one[0].lost, 1);
  EXPECT_LT(s.value.at_scale[0].lost, 0.01);
  EXPECT_EQ(s.key.verdict, Verdict::Neutral);
}

TEST(Verdict, NeededForASingleSink) {
  // One value of 10 240 is clipped, with little of the energy.
  SyntheticRun run = ordinary_run();
  run.key = [plain = gaussian(30, 5)](const Provenance& w) mutable {
    const float x = plain(w);
    return w.token == 0 && w.prompt == 2 && w.pass == 1 && w.head == 0 && w.channel == 9 ? 600.0F : x;
  };
  run.query = times(run.query, 1.0 / 30);
  const SolvedCache s = solved(run);
  EXPECT_LT(s.key.at_one[0].lost, 0.1);
  EXPECT_EQ(s.key.verdict, Verdict::Needed);
}

TEST(Verdict, InadequateForAWeakValueChannel) {
  SyntheticRun run = ordinary_run();
  run.value = channel_times(channel_times(run.value, 0, 1000), 5, 0.001);
  const SolvedCache s = solved(run);
  EXPECT_EQ(s.value.verdict, Verdict::Inadequate);
  EXPECT_GT(s.value.at_scale[0].lost, 0.9);
  EXPECT_EQ(s.value.at_scale[0].clipped, 0);
  EXPECT_EQ(s.key.verdict, Verdict::Neutral);
}

TEST(Verdict, InadequateForAKeyChannelThatDrownsTheOthers) {
  SyntheticRun run = ordinary_run();
  run.key = channel_times(run.key, 11, 60);  // largest about 250: nothing clips at 1.0
  const SolvedCache s = solved(run);
  EXPECT_EQ(s.key.verdict, Verdict::Inadequate);
  EXPECT_EQ(s.key.at_one[0].clipped, 0);
  EXPECT_LT(s.key.at_scale[0].lost, 0.1);
  EXPECT_GT(s.key.at_scale[0].noise, 0.25);
  EXPECT_GT(s.key.at_scale[0].dominating, 0.9);
}

TEST(Verdict, InadequateForOneBadHeadOfMany) {
  SyntheticRun run = ordinary_run();
  Signal plain = gaussian(1, 31);
  run.value = [plain](const Provenance& w) mutable {
    return plain(w) * (w.head == 1 ? 1e-7F : 1.0F);  // one scale cannot serve both heads
  };
  EXPECT_EQ(solved(run).value.verdict, Verdict::Inadequate);
  SolveOptions per_head;
  per_head.granularity = Granularity::Head;
  const SolvedCache s = solved(run, per_head);
  EXPECT_EQ(s.value.verdict, Verdict::Needed);
  ASSERT_EQ(s.value.scale_per_head.size(), 2U);
  EXPECT_GT(s.value.scale_per_head[0], 1e6F * s.value.scale_per_head[1]);
  EXPECT_EQ(s.value.scale, s.value.scale_per_head[0]);
  EXPECT_EQ(s.query.scale_per_head.size(), 4U);
}

TEST(Verdict, InadequateWhereThePolicyClipsTooMuch) {
  SolveOptions options;
  options.policy = "percentile";
  options.percentile = 60;
  const SolvedCache s = solved(ordinary_run(), options);
  EXPECT_GT(s.value.at_scale[0].lost, 0.3);
  EXPECT_EQ(s.value.verdict, Verdict::Inadequate);
}

TEST(Verdict, ClippingALittleOnPurposeIsNotInadequate) {
  SolveOptions options;
  options.policy = "percentile";
  options.percentile = 99.9;
  const SolvedCache s = solved(ordinary_run(), options);
  EXPECT_GT(s.value.at_scale[0].clipped, options.limits.clipped);
  EXPECT_EQ(s.value.verdict, Verdict::Neutral);
}

TEST(Verdict, AtRiskForSharpAttentionOfManyChannels) {
  SyntheticRun run = ordinary_run();
  run.key = times(run.key, 5);
  run.query = times(run.query, 5);
  const SolvedCache s = solved(run);
  EXPECT_NEAR(s.key.at_scale[0].noise, 25 * 0.0265, 0.05);
  EXPECT_LT(s.key.at_scale[0].dominating, 0.5);
  EXPECT_EQ(s.key.verdict, Verdict::AtRisk);
  EXPECT_EQ(s.value.verdict, Verdict::Neutral);
}

TEST(Verdict, LimitsMoveIt) {
  SyntheticRun run = ordinary_run();
  run.key = times(run.key, 5);
  run.query = times(run.query, 5);
  SolveOptions options;
  options.limits.noise = 1;
  EXPECT_EQ(solved(run, options).key.verdict, Verdict::Neutral);
  options.limits.noise = 0.25;
  options.limits.dominating = 0.01;
  EXPECT_EQ(solved(run, options).key.verdict, Verdict::Inadequate);
}

TEST(Verdict, RuleByRule) {
  const VerdictLimits limits;
  const HeadError good = {0.0265, 0, 0.001, 0.03, 0.1}, clipped = {0.02, 1e-5, 0.01, 0.03, 0.1};
  const HeadError lost = {0.3, 0, 0.2, 0.03, 0.1}, noisy = {0.0265, 0, 0, 0.3, 0.1}, drowned = {0.0265, 0, 0, 0.3, 0.6};
  EXPECT_EQ(verdict_of(good, good, limits), Verdict::Neutral);
  EXPECT_EQ(verdict_of(good, clipped, limits), Verdict::Needed);
  EXPECT_EQ(verdict_of(good, lost, limits), Verdict::Needed);
  EXPECT_EQ(verdict_of(lost, lost, limits), Verdict::Inadequate);
  EXPECT_EQ(verdict_of(clipped, clipped, limits), Verdict::Neutral);  // no better than 1.0
  HeadError fewer = clipped;
  fewer.clipped /= 2;
  EXPECT_EQ(verdict_of(fewer, clipped, limits), Verdict::Needed);
  EXPECT_EQ(verdict_of(clipped, good, limits), Verdict::Neutral);
  EXPECT_EQ(verdict_of(lost, good, limits), Verdict::Inadequate);
  EXPECT_EQ(verdict_of(noisy, good, limits), Verdict::AtRisk);
  EXPECT_EQ(verdict_of(noisy, lost, limits), Verdict::Needed);
  EXPECT_EQ(verdict_of(drowned, good, limits), Verdict::Inadequate);
  const HeadError at_scale[] = {good, good}, at_one[] = {good, lost};
  EXPECT_EQ(verdict_of(at_scale, at_one, limits), Verdict::Needed);
}

TEST(Verdict, NamesReadBack) {
  for (const Verdict v : {Verdict::Neutral, Verdict::AtRisk, Verdict::Needed, Verdict::Inadequate})
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
  EXPECT_EQ(s.joint.key_verdict, Verdict::Neutral);
}

TEST(Joint, LosesTheSmallerSiteOfAStressedLayer) {
  SyntheticRun run = ordinary_run();
  run.key = times(run.key, 0x1p7);
  run.query = times(run.query, 0x1p-7);
  run.value = times(run.value, 0x1p-14);
  const SolvedCache s = solved(run);
  EXPECT_EQ(s.value.verdict, Verdict::Needed);
  EXPECT_EQ(s.joint.value_verdict, Verdict::Inadequate);
  EXPECT_TRUE(s.joint.loses_value);
  EXPECT_FALSE(s.joint.loses_key);
}

TEST(Joint, DoesNotBlameItselfForWhatWasInadequateBefore) {
  SyntheticRun run = ordinary_run();
  run.key = channel_times(run.key, 11, 60);
  const SolvedCache s = solved(run);
  EXPECT_EQ(s.joint.key_verdict, Verdict::Inadequate);
  EXPECT_FALSE(s.joint.loses_key);
}

}  // namespace
}  // namespace kvcal
