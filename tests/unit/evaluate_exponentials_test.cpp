// Sums over logits, against long double: of every length, as the last block is seldom whole.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "evaluate/exponentials.h"

namespace kvcal {
namespace {

std::vector<float> random_logits(size_t n, float spread) {
  std::mt19937 random(static_cast<uint32_t>(n));
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(n);
  for (float& x : logits) x = normal(random);
  return logits;
}

void expect_near(double actual, long double expected) {
  EXPECT_NEAR(actual, static_cast<double>(expected), 1e-15 * static_cast<double>(expected));
}

TEST(Exponentials, AreThoseOfTheDifferences) {
  for (size_t n = 1; n <= 40; ++n) {
    const std::vector<float> logits = random_logits(n, 8);
    const float largest = *std::max_element(logits.begin(), logits.end());
    std::vector<double> e(n);
    const double sum = exp_sum(logits, largest, e);
    EXPECT_EQ(sum, exp_sum(logits, largest));
    long double expected = 0;
    for (size_t i = 0; i < n; ++i) {
      const long double each = std::exp(static_cast<long double>(logits[i]) - largest);
      expected += each;
      expect_near(e[i], each);
    }
    expect_near(sum, expected);
  }
}

TEST(Exponentials, OfWhatIsFarBelowAreZero) {
  const std::vector<float> logits = {0, -49.9f, -50.1f, -3e38f, 0, 0, 0, 0, -1e30f};
  std::vector<double> e(logits.size());
  expect_near(exp_sum(logits, 0, e), 5 + std::exp(-49.9L));
  expect_near(e[1], std::exp(static_cast<long double>(-49.9f)));
  for (const size_t i : {2, 3, 8}) EXPECT_EQ(e[i], 0);
  for (const size_t i : {0, 4, 7}) EXPECT_EQ(e[i], 1);
}

TEST(Exponentials, WeighDifferences) {
  for (size_t n = 1; n <= 40; ++n) {
    const std::vector<float> a = random_logits(n, 3), b = random_logits(n + 100, 3);
    std::vector<double> weights;
    long double expected = 0, size = 0;
    for (size_t i = 0; i < n; ++i) {
      weights.push_back(1 / static_cast<double>(i + 1));
      const long double term = weights[i] * (static_cast<long double>(a[i]) - b[i] - 0.25L);
      expected += term;
      size += std::fabs(term);
    }
    EXPECT_NEAR(weighted_difference(weights, a, b, 0.25), static_cast<double>(expected),
                1e-15 * static_cast<double>(size));
  }
}

}  // namespace
}  // namespace kvcal
