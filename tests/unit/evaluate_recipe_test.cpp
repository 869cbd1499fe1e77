// Which layers keep which format.
#include <gtest/gtest.h>

#include <random>

#include "evaluate/recipe.h"

namespace kvcal {
namespace {

std::vector<LayerFormat> two(double kl) { return {{"fp8_e4m3", kl, 512}, {"bf16", 0, 1024}}; }

std::vector<LayerFormat> three(double fp4, double fp8) {
  return {{"nvfp4", fp4, 288}, {"fp8_e4m3", fp8, 512}, {"bf16", 0, 1024}};
}

std::function<double(const Choice&)> sums(const LayerChoices& layers, double factor = 1) {
  return [&layers, factor](const Choice& choice) {
    double sum = 0;
    for (size_t i = 0; i < layers.size(); ++i) sum += layers[i][choice[i]].kl;
    return factor * sum;
  };
}

Recipe found(const LayerChoices& layers, const RecipeLimits& limits, const std::function<double(const Choice&)>& kl) {
  return find_recipe(layers, limits, [&](const Choice& choice) { return MeasuredChoice{kl(choice), 1}; });
}

/// The fewest bytes that any choice needs.
int64_t fewest_bytes(const LayerChoices& layers, double max_kl, const std::function<double(const Choice&)>& measure) {
  int64_t fewest = -1;
  Choice choice(layers.size(), 0);
  for (;;) {
    if (measure(choice) <= max_kl && (fewest < 0 || bytes_of(layers, choice) < fewest))
      fewest = bytes_of(layers, choice);
    size_t i = 0;
    while (i < choice.size() && ++choice[i] == layers[i].size()) choice[i++] = 0;
    if (i == choice.size()) return fewest;
  }
}

TEST(Recipe, KeepsTheLayersThatHurtMost) {
  const LayerChoices layers = {two(.1), two(.5), two(.2), two(.01)};
  EXPECT_EQ(choose(layers, 1), (Choice{0, 0, 0, 0}));
  EXPECT_EQ(choose(layers, .4), (Choice{0, 1, 0, 0}));
  EXPECT_EQ(choose(layers, .12), (Choice{0, 1, 1, 0}));
  EXPECT_EQ(choose(layers, 0), (Choice{1, 1, 1, 1}));
}

TEST(Recipe, TakesTheFormatThatGainsMostForAByte) {
  const LayerChoices layers = {three(.5, .01), three(.1, .09)};
  EXPECT_EQ(choose(layers, .2), (Choice{1, 0}));
  EXPECT_EQ(choose(layers, .05), (Choice{1, 2})) << "FP8 gains next to nothing in the second";
}

TEST(Recipe, NeedsNothingWhereTheCheapestIsGoodEnough) {
  const LayerChoices layers = {two(.1), two(.2)};
  const Recipe recipe = found(layers, {.5}, sums(layers));
  EXPECT_EQ(recipe.choice, (Choice{0, 0}));
  EXPECT_EQ(recipe.bytes, 1024);
  EXPECT_EQ(recipe.n_measured, 1);
}

TEST(Recipe, GoesByWhatIsMeasured) {
  const LayerChoices layers = {two(.1), two(.2), two(.3), two(.4)};
  for (const double factor : {.1, .5, 1., 2., 10.}) {
    const Recipe recipe = found(layers, {.35}, sums(layers, factor));
    EXPECT_LE(recipe.measured.kl, .35) << factor;
    EXPECT_LE(recipe.n_measured, kMostMeasured);
    EXPECT_EQ(recipe.bytes, fewest_bytes(layers, .35, sums(layers, factor))) << factor;
  }
}

TEST(Recipe, GoesByAgreementToo) {
  const LayerChoices layers = {two(.1), two(.2), two(.3), two(.4)};
  const auto agreeing = [&](double min_top1) {
    return find_recipe(layers, {10, min_top1}, [&](const Choice& choice) {
      const double kl = sums(layers)(choice);
      return MeasuredChoice{kl, 1 - kl / 4};
    });
  };
  EXPECT_EQ(agreeing(0).choice, (Choice{0, 0, 0, 0}));
  const Recipe recipe = agreeing(0.9);
  EXPECT_GE(recipe.measured.top1, 0.9);
  EXPECT_EQ(recipe.bytes, fewest_bytes(layers, .4, sums(layers)));
  EXPECT_EQ(agreeing(1).choice, (Choice{1, 1, 1, 1}));
}

TEST(Recipe, OfNoRoundingIsLeftWhereNothingIsGoodEnough) {
  const LayerChoices layers = {two(.1), two(.2)};
  const Recipe recipe = found(layers, {0}, sums(layers));
  EXPECT_EQ(recipe.choice, (Choice{1, 1}));
  EXPECT_EQ(recipe.measured.kl, 0);
}

TEST(Recipe, IsNearlyTheCheapestOfAll) {
  std::mt19937 random(1);
  std::exponential_distribution<double> kl(20);
  for (int i = 0; i < 50; ++i) {
    LayerChoices layers;
    for (int n = 0; n < 6; ++n) {
      const double fp4 = kl(random);
      layers.push_back(three(fp4, fp4 / 10));
    }
    const auto measure = sums(layers, .6);
    const Recipe recipe = found(layers, {.03}, measure);
    EXPECT_LE(recipe.measured.kl, .03);
    EXPECT_LE(recipe.bytes, fewest_bytes(layers, .03, measure) + 1024) << i;
  }
}

}  // namespace
}  // namespace kvcal
