// Scales per channel: their values by hand, and what rounding with them does against the values themselves.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "solve/channel_model.h"
#include "solve/damage.h"
#include "solve/solve.h"
#include "unit/solve_synthetic.h"

namespace kvcal {
namespace {

SolveOptions per_channel(const char* policy = "absmax") {
  SolveOptions options;
  options.format = "int8";
  options.granularity = Granularity::Channel;
  options.policy = policy;
  return options;
}

float scale_of(double range) { return scale_rounded_up(range / 127); }

/// Channels of sizes 1 to 16, and one that is far from zero.
Signal uneven(unsigned seed) {
  return [normal = gaussian(1, seed)](const Provenance& w) mutable {
    const float x = normal(w);
    return w.channel == 6 ? 100 + 2 * x : std::ldexp(x, static_cast<int>(w.channel % 5));
  };
}

/// The same, keeping what was stored by head and channel.
using Stored = std::map<std::pair<int64_t, int64_t>, std::vector<double>>;
Signal kept(Signal signal, Stored& stored) {
  return [signal, &stored](const Provenance& w) {
    const float x = signal(w);
    stored[{w.head, w.channel}].push_back(static_cast<double>(round_to_bf16(x)));
    return x;
  };
}

/// Of rounding: Σe², Σ(e - mean)², Σx², Σ(x - mean)².
struct Truth {
  double error = 0, varying_error = 0, energy = 0, variance = 0;
  void add(const std::vector<double>& values, double scale) {
    const NumberFormat& int8 = number_format("int8");
    double e_sum = 0, x_sum = 0, e_squares = 0, x_squares = 0;
    for (const double x : values) {
      const double e = round_trip(int8, x, scale) - x;
      e_sum += e;
      x_sum += x;
      e_squares += e * e;
      x_squares += x * x;
    }
    const auto n = static_cast<double>(values.size());
    error += e_squares;
    energy += x_squares;
    varying_error += e_squares - e_sum * e_sum / n;
    variance += x_squares - x_sum * x_sum / n;
  }
};

TEST(Channels, EachHasItsOwnRange) {
  SyntheticRun run = ordinary_run();
  run.value = [](const Provenance& w) { return std::ldexp(w.head == 0 ? 1.0F : -3.0F, static_cast<int>(w.channel)); };
  const Statistics s = synthetic_statistics(run);
  const SolvedCache out = solve_cache(s.caches[0], s.run, per_channel());
  ASSERT_EQ(out.value.scale_per_channel.size(), 32U);
  for (size_t c = 0; c < 16; ++c) {
    EXPECT_EQ(out.value.scale_per_channel[c], scale_of(std::ldexp(1.0, static_cast<int>(c)))) << c;
    EXPECT_EQ(out.value.scale_per_channel[16 + c], scale_of(std::ldexp(3.0, static_cast<int>(c)))) << c;
  }
  EXPECT_EQ(out.value.scale, scale_of(3.0 * 0x1p15));  // of the site, for who takes one
  EXPECT_TRUE(out.value.scale_per_head.empty());
  EXPECT_TRUE(out.query.scale_per_channel.empty());
  EXPECT_EQ(solve_cache(s.caches[0], s.run, per_channel("pow2")).value.scale_per_channel[16], 0x1p-5F);  // 3 / 127
}

TEST(Channels, KeysProvideForTheirPair) {
  SyntheticRun run = ordinary_run();
  run.key = [](const Provenance& w) {
    return w.channel == 1 ? 3.0F : w.channel == 5 ? 4.0F : w.channel == 9 ? 7.0F : 0.5F;
  };
  const Statistics s = synthetic_statistics(run);
  SolveOptions options = per_channel();
  options.max_model_len = 1 << 20;
  const std::vector<float> far = solve_cache(s.caches[0], s.run, options).key.scale_per_channel;
  EXPECT_EQ(far[1], scale_of(5 * (1 + 0x1p-7)));
  EXPECT_EQ(far[5], far[1]);
  EXPECT_EQ(far[9], scale_of(7));  // does not turn
  options.max_model_len = 1;       // shorter than what was measured
  const std::vector<float> near = solve_cache(s.caches[0], s.run, options).key.scale_per_channel;
  EXPECT_EQ(near[1], scale_of(3));
  EXPECT_EQ(near[5], scale_of(4));
}

TEST(Channels, ZerosHaveOne) {
  SyntheticRun run = ordinary_run();
  run.value = [](const Provenance& w) { return w.channel == 2 ? 0.0F : 0.5F; };
  const Statistics s = synthetic_statistics(run);
  const SolvedCache out = solve_cache(s.caches[0], s.run, per_channel());
  EXPECT_EQ(out.value.scale_per_channel[2], 1);
  EXPECT_EQ(out.value.scale_per_channel[3], scale_of(0.5));
  EXPECT_FALSE(out.value.assessment.at_scale.clips);
}

// The values of an octave are taken to be spread evenly; these are normal.
constexpr double kEven = 0.05;

TEST(Channels, ErrorsAreThoseOfTheValues) {
  SyntheticRun run = ordinary_run();
  Stored stored;
  run.value = kept(uneven(5), stored);
  run.n_prompts = 32;
  const Statistics s = synthetic_statistics(run);
  const SolvedCache out = solve_cache(s.caches[0], s.run, per_channel());
  Truth all;
  for (size_t head = 0; head < 2; ++head) {
    Truth of_head;
    for (size_t c = 0; c < 16; ++c) {
      const double scale = out.value.scale_per_channel[head * 16 + c];
      const std::vector<double>& values = stored.at({static_cast<int64_t>(head), static_cast<int64_t>(c)});
      of_head.add(values, scale);
      all.add(values, scale);
    }
    const double truth = std::sqrt(of_head.error / of_head.energy);
    EXPECT_NEAR(out.value.at_scale[head].error, truth, kEven * truth) << head;
    EXPECT_EQ(out.value.at_scale[head].clipped, 0);
  }
  // The channel at 100 is nearly all of the energy, and nearly nothing of what varies.
  const PredictedDamage damage =
      predict_damage(s.caches[0], CacheSite::Value, number_format("int8"), out.value.scale_per_channel);
  const double raw = std::sqrt(all.error / all.energy), varying = std::sqrt(all.varying_error / all.variance);
  EXPECT_NEAR(damage.rel_raw, raw, kEven * raw);
  EXPECT_NEAR(damage.rel, std::max(raw, varying), kEven * varying);
  EXPECT_GT(varying, 2 * raw);
  EXPECT_EQ(out.value.assessment.at_scale.by, Basis::Histogram);
}

TEST(Channels, AreBetterThanOneScaleWhereChannelsDiffer) {
  SyntheticRun run = ordinary_run();
  run.key = [normal = gaussian(1, 7)](const Provenance& w) mutable { return normal(w) * (w.channel == 9 ? 200 : 1); };
  const Statistics s = synthetic_statistics(run);
  SolveOptions tensor = per_channel();
  tensor.granularity = Granularity::Tensor;
  const SolvedSite one = solve_cache(s.caches[0], s.run, tensor).key;
  const SolvedSite each = solve_cache(s.caches[0], s.run, per_channel()).key;
  for (size_t head = 0; head < 2; ++head) EXPECT_LT(each.at_scale[head].noise, 0.5 * one.at_scale[head].noise);
  EXPECT_EQ(each.scale, one.scale);
}

TEST(Channels, TakeNoOtherFormatAndNoPolicyThatNeedsAHistogram) {
  SolveOptions fp8 = per_channel();
  fp8.format = "fp8_e4m3";
  EXPECT_THROW(check(fp8), Error);
  for (const char* policy : {"percentile", "mse", "kl"}) EXPECT_THROW(check(per_channel(policy)), Error) << policy;
  for (const char* policy : {"absmax", "pow2"}) EXPECT_NO_THROW(check(per_channel(policy))) << policy;
  EXPECT_EQ(name_of(Granularity::Channel), "channel");
  EXPECT_EQ(granularity_from_name("channel"), Granularity::Channel);
}

}  // namespace
}  // namespace kvcal
