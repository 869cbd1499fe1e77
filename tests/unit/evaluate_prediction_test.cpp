// Differences of two predictions, against sums in long double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "evaluate/prediction.h"

namespace kvcal {
namespace {

std::vector<long double> softmax(const std::vector<float>& logits) {
  const long double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<long double> p;
  long double sum = 0;
  for (const float x : logits) sum += p.emplace_back(std::exp(static_cast<long double>(x) - largest));
  for (long double& x : p) x /= sum;
  return p;
}

long double kl(const std::vector<float>& a, const std::vector<float>& b) {
  const auto p = softmax(a), q = softmax(b);
  long double sum = 0;
  for (size_t i = 0; i < p.size(); ++i)
    if (p[i] > 0) sum += p[i] * std::log(p[i] / q[i]);
  return sum;
}

std::vector<float> random_logits(size_t n, float spread, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(n);
  for (float& x : logits) x = normal(random);
  return logits;
}

PredictionDifference difference(const std::vector<float>& a, const std::vector<float>& b, int32_t next) {
  std::vector<double> room(a.size());
  return ReferencePrediction(a, room).difference(b, next);
}

TEST(Prediction, IsTheDefinition) {
  for (const float spread : {0.1f, 1.0f, 5.0f, 20.0f})
    for (const float moved : {1e-3f, 0.1f, 1.0f}) {
      const std::vector<float> a = random_logits(5000, spread, 1);
      std::vector<float> b = random_logits(5000, moved, 2);
      for (size_t i = 0; i < b.size(); ++i) b[i] += a[i];
      const PredictionDifference d = difference(a, b, 7);
      EXPECT_NEAR(d.kl, static_cast<double>(kl(a, b)), 1e-9 * static_cast<double>(kl(a, b)) + 1e-13) << spread;
      EXPECT_NEAR(d.nll_reference, static_cast<double>(-std::log(softmax(a)[7])), 1e-9);
      EXPECT_NEAR(d.nll_variant, static_cast<double>(-std::log(softmax(b)[7])), 1e-9);
      EXPECT_EQ(d.same_top, std::ranges::max_element(a) - a.begin() == std::ranges::max_element(b) - b.begin());
    }
}

TEST(Prediction, OfEqualLogitsDiffersByNothing) {
  const std::vector<float> a = random_logits(1000, 8, 3);
  const PredictionDifference d = difference(a, a, 5);
  EXPECT_EQ(d.kl, 0);
  EXPECT_EQ(d.nll_reference, d.nll_variant);
  EXPECT_TRUE(d.same_top && d.finite);
}

TEST(Prediction, IsTheSameWhenAllLogitsMoveTogether) {
  std::vector<float> a = {1, 2, 4, 8}, b = {-7, -6, -4, 0};
  EXPECT_EQ(difference(a, b, -1).kl, 0);
}

TEST(Prediction, KnowsWhatFollowsOnlyWhereSomethingDoes) {
  const PredictionDifference d = difference(std::vector<float>{1, 2}, std::vector<float>{2, 1}, -1);
  EXPECT_EQ(d.nll_reference, 0);
  EXPECT_EQ(d.nll_variant, 0);
  EXPECT_FALSE(d.same_top);
}

TEST(Prediction, OfEqualLargestLogitsTheFirstCounts) {
  EXPECT_TRUE(difference(std::vector<float>{1, 3, 3}, std::vector<float>{1, 3, 2}, -1).same_top);
  EXPECT_FALSE(difference(std::vector<float>{1, 3, 3}, std::vector<float>{1, 2, 3}, -1).same_top);
}

TEST(Prediction, SurvivesLogitsOfAnySize) {
  const std::vector<float> a = {0, 3e38f, -3e38f}, b = {3e38f, 0, -3e38f};
  const PredictionDifference d = difference(a, b, 0);
  EXPECT_NEAR(d.kl, 3e38, 1e32);
  EXPECT_NEAR(d.nll_reference, 3e38, 1e32);
  EXPECT_EQ(d.nll_variant, 0);
}

TEST(Prediction, SaysWhereLogitsAreNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {infinity, -infinity, std::nanf("")}) {
    const std::vector<float> broken = {0, bad, 1};
    EXPECT_FALSE(difference(std::vector<float>{0, 1, 2}, broken, 1).finite);
    EXPECT_FALSE(difference(broken, broken, 1).finite);
  }
}

}  // namespace
}  // namespace kvcal
