#include <gtest/gtest.h>

#include <cmath>

#include "artifact/difference.h"
#include "unit/solve_synthetic.h"
#include "unit/solved_artifact.h"

namespace kvcal {
namespace {

Artifact sample(Granularity granularity = Granularity::Tensor, const char* format = "fp8_e4m3") {
  static const Statistics statistics = synthetic_statistics(ordinary_run());
  SolveOptions options = absmax_options();
  options.granularity = granularity;
  options.format = format;
  return solved_artifact(statistics, options);
}

/// The value site when the scale of B is `factor` times that of A (whose headroom is 2).
SiteDifference value_times(float factor, const char* format = "fp8_e4m3") {
  const Artifact a = sample(Granularity::Tensor, format);
  Artifact b = a;
  b.layers[0].value.scale *= factor;
  return compare(a, b).sites[1];
}

TEST(Difference, IsNoneBetweenAFileAndItself) {
  for (const Granularity g : {Granularity::Tensor, Granularity::Head}) {
    const ArtifactDifference d = compare(sample(g), sample(g));
    EXPECT_TRUE(d.members.empty());
    ASSERT_EQ(d.sites.size(), 3u);
    EXPECT_TRUE(d.within(0));
  }
}

TEST(Difference, HasAnEffectWhereAScaleClipsOrFlushes) {
  EXPECT_EQ(value_times(1.5f).effect, "");
  EXPECT_EQ(value_times(0.51f).effect, "");
  EXPECT_NE(value_times(0.49f).effect.find("B clips what A measured"), std::string::npos);
  EXPECT_EQ(value_times(7.9f).effect, "") << "overshoot of 15.8";
  EXPECT_NE(value_times(8.1f).effect.find("B is 16.2 times too large for A"), std::string::npos);
  EXPECT_NE(value_times(4, "int8").effect.find("B is 4 times too large for A"), std::string::npos);
}

TEST(Difference, IsMeasuredInBothDirections) {
  const Artifact a = sample();
  Artifact b = a;
  b.layers[0].key.absmax *= 8;  // B has seen more
  b.layers[0].key.scale *= 8;
  const SiteDifference d = compare(a, b).sites[0];
  EXPECT_NE(d.effect.find("A clips what B measured"), std::string::npos) << d.effect;
  EXPECT_DOUBLE_EQ(d.change(), 7);
}

// pow2 goes up to 1.0 where nothing is lost by it; it clips like any other.
TEST(Difference, AScaleThatWasLookedForNearOneIsNotTooLarge) {
  const Artifact a = sample();
  Artifact b = a;
  b.layers[0].value.scale = 1;
  const auto effect = [&] { return compare(a, b).sites[1].effect; };
  ASSERT_NE(effect().find("times too large for A"), std::string::npos) << effect();
  b.quantization.policy = "pow2";
  EXPECT_EQ(effect(), "");
  b.layers[0].value.absmax = 4 * a.layers[0].value.absmax;
  EXPECT_NE(effect().find("times too large for A"), std::string::npos) << "made from larger values than A has";
  b.layers[0].value.absmax = a.layers[0].value.absmax;
  b.layers[0].value.scale = a.layers[0].value.scale / 4;
  EXPECT_NE(effect().find("B clips what A measured"), std::string::npos) << effect();
}

TEST(Difference, KeepsToTheTolerance) {
  const Artifact a = sample();
  Artifact b = a;
  b.layers[0].value.scale *= 1.04f;
  b.quantization.policy = "pow2";
  const ArtifactDifference d = compare(a, b);
  EXPECT_FALSE(d.within(0));
  EXPECT_FALSE(d.within(0.03));
  EXPECT_TRUE(d.within(0.05)) << "another policy alone decides nothing";
  b.layers[0].value.assessment.fp8 = b.layers[0].value.assessment.at_scale.fitness = Fitness::Keep16;
  EXPECT_FALSE(compare(a, b).within(0.05));
}

TEST(Difference, CountsAChangeOfEitherAnswer) {
  const Artifact a = sample();
  EXPECT_FALSE(compare(a, a).sites[1].other_answer());
  Artifact b = a;
  b.layers[0].value.assessment.scale = ScaleNeed::Needed;
  EXPECT_TRUE(compare(a, b).sites[1].other_answer());
  EXPECT_FALSE(compare(a, b).within(1e9));
  b = a;
  b.layers[0].value.assessment.at_scale.rel = 0.01;
  EXPECT_TRUE(compare(a, b).within(0)) << "a figure that moves no answer";
  // One word stands for both: 'inadequate' hides whether the scale is needed.
  Artifact ruined = a;
  ruined.layers[0].value.assessment.fp8 = Fitness::Keep16;
  b = ruined;
  b.layers[0].value.assessment.scale = ScaleNeed::Needed;
  EXPECT_EQ(b.layers[0].value.verdict(), ruined.layers[0].value.verdict());
  EXPECT_FALSE(compare(ruined, b).within(0));
}

TEST(Difference, OfModelsFormatsAndLayersDecides) {
  const Artifact a = sample();
  Artifact other = a;
  other.model.weights_fingerprint = std::string(64, '0');
  EXPECT_FALSE(compare(a, other).within(1e9));
  EXPECT_FALSE(compare(a, sample(Granularity::Head)).within(1e9));
  EXPECT_FALSE(compare(a, sample(Granularity::Tensor, "int8")).within(1e9));
  Artifact moved = a;
  moved.layers[0].index = 5;
  const ArtifactDifference d = compare(a, moved);
  EXPECT_TRUE(d.sites.empty());
  EXPECT_EQ(d.members.size(), 2u);
  EXPECT_FALSE(d.within(1e9));
}

TEST(Difference, FindsTheHead) {
  const Artifact a = sample(Granularity::Head);
  Artifact b = a;
  b.layers[0].value.scale_per_head[1] *= 0.4f;
  const SiteDifference d = compare(a, b).sites[1];
  EXPECT_EQ(d.head, 1);
  EXPECT_NE(d.effect, "");
}

TEST(Difference, LeavesOutHeadsThatAreZeroThroughout) {
  SyntheticRun run = ordinary_run();
  run.value = [plain = gaussian(1, 2)](const Provenance& w) mutable { return w.head == 0 ? 0.0F : plain(w); };
  SolveOptions options = absmax_options();
  options.granularity = Granularity::Head;
  const Artifact a = solved_artifact(synthetic_statistics(run), options);
  ASSERT_EQ(a.layers[0].value.zero_heads, std::vector<int>{0});
  const SiteDifference same = compare(a, a).sites[1];
  EXPECT_EQ(same.head, 1);
  EXPECT_TRUE(std::isfinite(same.overshoot_a) && std::isfinite(same.overshoot_b));
  const SiteDifference woken = compare(a, sample(Granularity::Head)).sites[1];  // B has seen values there
  EXPECT_EQ(woken.head, 0);
  EXPECT_TRUE(std::isfinite(woken.overshoot_a) && std::isfinite(woken.overshoot_b));
}

}  // namespace
}  // namespace kvcal
