// The error model against tables computed elsewhere, and against quantizing every value one by one.
#include <gtest/gtest.h>

#include <cmath>

#include "solve/error_model.h"
#include "unit/solve_synthetic.h"

namespace kvcal {
namespace {

/// What a normal distribution of this deviation would count, a thousand million values of it.
MagnitudeHistogram normal_histogram(double sigma) {
  constexpr double kTotal = 1e9;
  MagnitudeHistogram histogram;
  const auto above = [&](double x) { return std::erfc(x / sigma / std::sqrt(2.0)); };
  for (uint16_t code = 1; code < 0x7F7F; ++code) {
    const double x = magnitude_of(code), low = (x + magnitude_of(static_cast<uint16_t>(code - 1))) / 2,
                 high = (x + magnitude_of(static_cast<uint16_t>(code + 1))) / 2;
    const auto count = static_cast<uint64_t>(std::llround(kTotal * (above(low) - above(high))));
    if (count > 0) histogram.counts.emplace_back(code, count);
  }
  return histogram;
}

struct GaussianCase {
  double sigma, low, high;
};

class Gaussian : public testing::TestWithParam<GaussianCase> {};

// Relative RMS error of E4M3 at scale 1.0.
TEST_P(Gaussian, ErrorAtOne) {
  const GaussianCase& c = GetParam();
  const HeadError e = error_of(normal_histogram(c.sigma), number_format("fp8_e4m3"), 1);
  EXPECT_GE(e.error, c.low) << "sigma " << c.sigma;
  EXPECT_LE(e.error, c.high) << "sigma " << c.sigma;
}

constexpr double kTwoPerCent[] = {0.98, 1.02};
GaussianCase near(double sigma, double error) { return {sigma, error * kTwoPerCent[0], error * kTwoPerCent[1]}; }

INSTANTIATE_TEST_SUITE_P(Table, Gaussian,
                         testing::Values(GaussianCase{0.06, 0.0262, 0.0270}, GaussianCase{1, 0.0262, 0.0270},
                                         GaussianCase{11, 0.0262, 0.0270}, GaussianCase{112, 0.0262, 0.0270},
                                         near(0x1p-6, 0.0385), near(0.008, 0.070), near(0.004, 0.141),
                                         near(0.002, 0.282), near(0.001, 0.562), near(1e-4, 1), near(150, 0.033),
                                         near(200, 0.078), near(300, 0.216), near(448, 0.388), near(1000, 0.680)));

// What docs/evidence.md says of scale 1.0, computed with numpy and ml_dtypes.
INSTANTIATE_TEST_SUITE_P(Readme, Gaussian,
                         testing::Values(GaussianCase{0.06, 0.0262, 0.0270}, GaussianCase{120, 0.0262, 0.0270},
                                         near(0x1p-7, 0.0722), near(0x1p-8, 0.1444), near(0x1p-9, 0.2887),
                                         near(0x1p-11, 0.9294), near(0x1p8, 0.1550), near(0x1p9, 0.4448)));

TEST(ErrorModel, TooLargeAScaleIsFreeInFp8) {
  // amax/sigma at scale amax/448: a thousand costs nothing, 100 000 costs 12.6 %.
  const MagnitudeHistogram histogram = normal_histogram(1);
  const NumberFormat& fp8 = number_format("fp8_e4m3");
  EXPECT_NEAR(error_of(histogram, fp8, 1000.0F / 448).error, 0.0265, 0.0004);
  EXPECT_NEAR(error_of(histogram, fp8, 10000.0F / 448).error, 0.0271, 0.0003);
  EXPECT_NEAR(error_of(histogram, fp8, 100000.0F / 448).error, 0.126, 0.001);
  const NumberFormat& int8 = number_format("int8");
  EXPECT_NEAR(error_of(histogram, int8, 6.0F / 127).error, 0.0136, 0.0003);
  EXPECT_NEAR(error_of(histogram, int8, 20.0F / 127).error, 0.0455, 0.0005);
  EXPECT_NEAR(error_of(histogram, int8, 50.0F / 127).error, 0.114, 0.001);
}

TEST(ErrorModel, EqualsQuantisingEveryValue) {
  for (const char* name : {"fp8_e4m3", "fp8_e4m3fnuz", "int8"})
    for (const float scale : {1.0F, 0.0043F, 0.2F, 17.0F}) {
      const NumberFormat& format = number_format(name);
      Signal signal = gaussian(1.7, 5);
      std::map<uint16_t, uint64_t> codes;
      MagnitudeHistogram histogram;
      double energy = 0, wrong = 0, lost = 0, clipped = 0;
      constexpr int kValues = 20000;
      for (int i = 0; i < kValues; ++i) {
        const float x = round_to_bf16(signal({}) * (i % 7 == 0 ? 40.0F : 1.0F));
        ++codes[static_cast<uint16_t>(to_bf16(x).bits & 0x7FFF)];
        const double r = static_cast<double>(scale) * round_to(format, static_cast<double>(x) / scale);
        const double square = static_cast<double>(x) * x, ratio = std::fabs(x) / static_cast<double>(scale);
        energy += square;
        wrong += (r - x) * (r - x);
        if (ratio > format.max) clipped += 1;
        if (ratio > format.max || ratio < format.smallest_normal) lost += square;
      }
      histogram.zeros = codes[0];
      codes.erase(0);
      histogram.counts.assign(codes.begin(), codes.end());
      const HeadError e = error_of(histogram, format, scale);
      EXPECT_NEAR(e.error, std::sqrt(wrong / energy), 1e-12) << name << " " << scale;
      EXPECT_NEAR(e.clipped, clipped / kValues, 1e-12) << name << " " << scale;
      EXPECT_NEAR(e.lost, lost / energy, 1e-12) << name << " " << scale;
    }
}

TEST(ErrorModel, ZerosDiluteOnlyTheShareOfClippedValues) {
  MagnitudeHistogram histogram = {{{0x4410, 1}}, 3, 0, 0, 0, 0};  // 576
  const HeadError e = error_of(histogram, number_format("fp8_e4m3"), 1);
  EXPECT_DOUBLE_EQ(e.clipped, 0.25);
  EXPECT_DOUBLE_EQ(e.lost, 1);
  EXPECT_DOUBLE_EQ(e.error, 128.0 / 576);
  histogram.over = 4;
  EXPECT_DOUBLE_EQ(error_of(histogram, number_format("fp8_e4m3"), 1).clipped, 5.0 / 8);
}

/// The noise of logits measured: real dot products of real rows with rounded keys, all rows against all.
double measured_noise(const SyntheticRun& run, float scale) {
  const NumberFormat& format = number_format("fp8_e4m3");
  constexpr int kRows = 300, kWidth = 16;
  Signal key = run.key, query = run.query;
  std::vector<double> difference, q;
  for (int i = 0; i < kRows * kWidth; ++i) {
    Provenance where;
    where.channel = i % kWidth;
    const double x = round_to_bf16(key(where));
    difference.push_back(round_trip(format, x, scale) - x);
    q.push_back(round_to_bf16(query(where)));
  }
  double sum = 0;
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kRows; ++j) {
      double dot = 0;
      for (int c = 0; c < kWidth; ++c)
        dot += q[static_cast<size_t>(i * kWidth + c)] * difference[static_cast<size_t>(j * kWidth + c)];
      sum += dot * dot;
    }
  return run.layout.softmax_scale * std::sqrt(sum / kRows / kRows);
}

TEST(KeyNoise, IsWhatRoundingAddsToLogits) {
  SyntheticRun run = ordinary_run();
  Signal plain = gaussian(1, 21);
  run.key = [plain](const Provenance& w) mutable { return plain(w) * (w.channel == 12 ? 100.0F : 1.0F); };
  const CacheStatistics cache = synthetic_cache(run);
  for (const float scale : {1.0F, 4.0F, 60.0F}) {
    const std::vector<HeadError> errors = errors_of(cache, CacheSite::Key, number_format("fp8_e4m3"), {&scale, 1});
    EXPECT_NEAR(errors[0].noise / measured_noise(run, scale), 1, 0.06) << scale;
  }
}

TEST(KeyNoise, OfOrdinaryHeadsAndOfOneLargeChannel) {
  SyntheticRun run = ordinary_run();
  const float one = 1;
  const NumberFormat& format = number_format("fp8_e4m3");
  // Unit vectors: softmax_scale · sqrt(16) · 0.0265.
  EXPECT_NEAR(errors_of(synthetic_cache(run), CacheSite::Key, format, {&one, 1})[0].noise, 0.0265, 0.001);
  EXPECT_LT(errors_of(synthetic_cache(run), CacheSite::Key, format, {&one, 1})[0].dominating, 0.3);

  Signal plain = gaussian(1, 22);
  run.key = [plain](const Provenance& w) mutable { return plain(w) * (w.channel == 12 ? 60.0F : 1.0F); };
  const HeadError outlier = errors_of(synthetic_cache(run), CacheSite::Key, format, {&one, 1})[0];
  EXPECT_NEAR(outlier.noise, 0.25 * 60 * 0.0265, 0.03);
  EXPECT_GT(outlier.dominating, 0.99);
}

TEST(KeyNoise, TakesTheWorstQueryHeadOfItsOwnGroup) {
  // Query heads 0 and 1 read KV head 0, 2 and 3 read KV head 1.
  for (const int64_t loud : {1, 2, 3}) {
    SyntheticRun run = ordinary_run();
    Signal plain = gaussian(1, 23);
    run.query = [plain, loud](const Provenance& w) mutable { return plain(w) * (w.head == loud ? 10.0F : 1.0F); };
    const float one = 1;
    const auto errors = errors_of(synthetic_cache(run), CacheSite::Key, number_format("fp8_e4m3"), {&one, 1});
    EXPECT_NEAR(errors[static_cast<size_t>(loud / 2)].noise, 0.265, 0.01) << loud;
    EXPECT_NEAR(errors[static_cast<size_t>(1 - loud / 2)].noise, 0.0265, 0.001) << loud;
  }
}

TEST(KeyNoise, ARotaryPairCountsAsOneChannel) {
  SyntheticRun run = ordinary_run();
  Signal plain = gaussian(1, 24);
  // Channels 1 and 5 are a pair of eight rotated channels; 12 and 13 are not rotated.
  const auto large = [plain](int64_t a, int64_t b) {
    return [=](const Provenance& w) mutable { return plain(w) * (w.channel == a || w.channel == b ? 60.0F : 1.0F); };
  };
  const float one = 1;
  run.key = large(1, 5);
  EXPECT_GT(errors_of(synthetic_cache(run), CacheSite::Key, number_format("fp8_e4m3"), {&one, 1})[0].dominating, 0.99);
  run.key = large(12, 13);
  EXPECT_LT(errors_of(synthetic_cache(run), CacheSite::Key, number_format("fp8_e4m3"), {&one, 1})[0].dominating, 0.62);
}

TEST(ValueChannels, TheWorstOneCounts) {
  SyntheticRun run = ordinary_run();
  Signal plain = gaussian(1, 25);
  run.value = [plain](const Provenance& w) mutable {
    return plain(w) * (w.head == 1 && w.channel == 7 ? 0.001F : 1.0F);
  };
  const CacheStatistics cache = synthetic_cache(run);
  const float one = 1;
  const auto errors = errors_of(cache, CacheSite::Value, number_format("fp8_e4m3"), {&one, 1});
  EXPECT_LT(errors[0].lost, 0.01);
  EXPECT_DOUBLE_EQ(errors[1].lost, 1);  // all of that channel is below 2^-6
  EXPECT_LT(error_of(cache.at(CacheSite::Value).heads[1].histogram, number_format("fp8_e4m3"), 1).lost, 0.01);
}

TEST(ValueChannels, AChannelThatIsNotClippedLosesNothingAbove) {
  SyntheticRun run = ordinary_run();
  // Both channels lie in the octave 256..512, only one of them above 448.
  run.value = [](const Provenance& w) { return w.channel == 0 ? 300.0F : w.channel == 1 ? 500.0F : 1.0F; };
  const CacheStatistics cache = synthetic_cache(run);
  const float one = 1;
  const auto e = errors_of(cache, CacheSite::Value, number_format("fp8_e4m3"), {&one, 1})[0];
  EXPECT_DOUBLE_EQ(e.clipped, 1.0 / 16);
  // The clipped channel is judged as its head is within that octave: 500² of 300² + 500².
  EXPECT_NEAR(e.lost, 250000.0 / 340014.0, 0.001);
}

TEST(ValueChannels, AChannelBelowTheClipPointIsNotChargedForItsNeighbors) {
  SyntheticRun run = ordinary_run();
  // Channel 0 shares the octave 256..512 with the few values of channel 1 that are clipped.
  run.value = [](const Provenance& w) {
    return w.channel == 0 ? 300.0F : w.channel == 1 ? (w.token % 20 == 0 ? 500.0F : 240.0F) : 1.0F;
  };
  const CacheStatistics cache = synthetic_cache(run);
  const float one = 1;
  const auto e = errors_of(cache, CacheSite::Value, number_format("fp8_e4m3"), {&one, 1})[0];
  EXPECT_DOUBLE_EQ(e.lost, error_of(cache.at(CacheSite::Value).heads[0].histogram, number_format("fp8_e4m3"), 1).lost);
}

TEST(Errors, OneScalePerHead) {
  const CacheStatistics cache = synthetic_cache(ordinary_run());
  const float scales[] = {1, 1e6F};
  const auto errors = errors_of(cache, CacheSite::Value, number_format("fp8_e4m3"), scales);
  EXPECT_LT(errors[0].lost, 0.01);
  EXPECT_DOUBLE_EQ(errors[1].lost, 1);
}

}  // namespace
}  // namespace kvcal
