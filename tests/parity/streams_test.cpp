// Ops of models with several residual streams, and of sparse gates.
#include "base/error.h"
#include "base/portable_math.h"
#include "parity/ops_cases.h"

namespace kvcal::test {
namespace {

struct StreamsCase {
  int64_t tokens, n, m, width;
  Fill fill;
};
constexpr StreamsCase kStreamsCases[] = {
    {3, 4, 4, 40, Fill::Normal},   {1, 1, 1, 1, Fill::Normal},   {5, 1, 4, 136, Fill::Normal},
    {2, 4, 1, 257, Fill::Normal},  {7, 3, 2, 8, Fill::Outliers}, {0, 4, 4, 64, Fill::Normal},
    {2, 4, 4, 2048, Fill::Normal}, {3, 5, 6, 300, Fill::Normal}, {2, 2, 2, 1100, Fill::Denormals},
};

TEST(Streams, Mixed) {
  for (const Precision p : {Precision::F32, Precision::BF16})
    for (const StreamsCase& c : kStreamsCases) {
      SCOPED_TRACE(std::to_string(c.n) + " to " + std::to_string(c.m) + " of " + std::to_string(c.width));
      const auto op = backend(p);
      const DType dtype = op->activation_dtype();
      const Values x = random_values({c.tokens, c.n, c.width}, dtype, 1, c.fill),
                   w = random_values({c.tokens, c.m * c.n}, dtype, 2);
      std::vector<double> expected;
      for (int64_t t = 0; t < c.tokens; ++t)
        for (int64_t i = 0; i < c.m; ++i)
          for (int64_t at = 0; at < c.width; ++at) {
            double sum = 0.0;
            for (int64_t j = 0; j < c.n; ++j)
              sum += w.real[static_cast<size_t>((t * c.m + i) * c.n + j)] *
                     x.real[static_cast<size_t>((t * c.n + j) * c.width + at)];
            expected.push_back(sum);
          }
      const Tensor y = op->mix_streams(x, w);
      EXPECT_EQ(y.shape, (Shape{c.tokens, c.m, c.width}));
      expect_close("mix_streams", read(y), expected, one_rounding(p, 2e-7));  // terms that cancel
    }
}

class StreamRows : public testing::TestWithParam<std::tuple<Precision, NormCase>> {
 protected:
  Precision precision() const { return std::get<0>(GetParam()); }
  const NormCase& c() const { return std::get<1>(GetParam()); }
  Values input(uint32_t seed, Fill fill, double sigma = 1.0) const {
    return random_values({c().rows, c().width}, precision() == Precision::BF16 ? DType::BF16 : DType::F32, seed, fill,
                         sigma);
  }
  double mean(const Values& x, int64_t r, int power, double center = 0) const {
    double sum = 0.0;
    for (int64_t i = 0; i < c().width; ++i)
      sum += std::pow(x.real[static_cast<size_t>(r * c().width + i)] - center, power);
    return sum / static_cast<double>(c().width);
  }
};

TEST_P(StreamRows, MatchRms) {
  const auto op = backend(precision());
  const Values like = input(2, Fill::Normal);
  for (const double sigma : {3.0, 1e-3}) {  // 1e-3: shorter than the least that is divided by
    const Values x = input(1, c().fill, sigma);
    std::vector<double> expected = x.real;
    for (int64_t r = 0; r < c().rows; ++r)
      for (int64_t i = 0; i < c().width; ++i)
        expected[static_cast<size_t>(r * c().width + i)] *=
            std::sqrt(mean(like, r, 2)) / std::max(std::sqrt(mean(x, r, 2)), 0.01);
    expect_close("match_rms", read(op->match_rms(x, like, 0.01f)), expected, one_rounding(precision(), 5e-7));
  }
}

TEST_P(StreamRows, KeepAbove) {
  const auto op = backend(precision());
  const Values x = input(1, c().fill);
  for (const double deviations : {1.6448536, 0.0, -0.7}) {
    std::vector<double> expected = x.real;
    for (int64_t r = 0; r < c().rows; ++r) {
      const double middle = mean(x, r, 1), cutoff = middle + deviations * std::sqrt(mean(x, r, 2, middle));
      for (int64_t i = 0; i < c().width; ++i) {
        double& y = expected[static_cast<size_t>(r * c().width + i)];
        y = std::max(y - cutoff, 0.0);
      }
    }
    // A difference of numbers near each other: the error is of the cutoff, which outliers move far.
    const double inner = c().fill == Fill::Outliers ? 2e-5 : 1e-6;
    expect_close("keep_above", read(op->keep_above(x, static_cast<float>(deviations))), expected,
                 one_rounding(precision(), inner));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, StreamRows,
                         testing::Combine(testing::Values(Precision::F32, Precision::BF16),
                                          testing::ValuesIn(kNormCases)));

TEST(Streams, WhatIsNoNumberStaysNone) {
  for (const Precision p : {Precision::F32, Precision::BF16}) {
    const auto op = backend(p);
    const double nan = std::nan("");
    const Values x = values({1, 3}, op->activation_dtype(), {1.0, nan, 2.0});
    for (const double y : read(op->keep_above(x, 0.5f))) EXPECT_TRUE(std::isnan(y));
    for (const double y : read(op->match_rms(x, x, 0.01f))) EXPECT_TRUE(std::isnan(y));
  }
}

TEST(Streams, RefusesShapesThatDoNotFit) {
  const auto op = backend(Precision::F32);
  const Values x = random_values({2, 3, 8}, DType::F32, 1), w = random_values({2, 4}, DType::F32, 2),
               flat = random_values({6, 8}, DType::F32, 3);
  EXPECT_THROW(op->mix_streams(x, w), Error);
  EXPECT_THROW(op->mix_streams(flat, w), Error);
  EXPECT_THROW(op->match_rms(x, flat, 0.01f), Error);
}

TEST(Streams, QuantilesOfTheNormalDistribution) {  // published tables
  EXPECT_NEAR(normal_quantile(0.95), 1.6448536269514722, 1e-14);
  EXPECT_NEAR(normal_quantile(0.5), 0.0, 1e-15);
  EXPECT_NEAR(normal_quantile(0.025), -1.9599639845400545, 1e-13);
  EXPECT_NEAR(normal_quantile(1e-9), -5.9978070150076865, 1e-12);
  EXPECT_NEAR(normal_quantile(0.9999999), 5.1993375821874714, 1e-8);
}

}  // namespace
}  // namespace kvcal::test
