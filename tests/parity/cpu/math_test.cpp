// The elementary functions against the C library in long double.
#include "ops/cpu/math.h"

#include <random>

#include "parity/op_fixture.h"

namespace kvcal::test {
namespace {

double ulps(float actual, long double expected) {
  const auto nearest = static_cast<float>(expected);
  const double ulp = double{std::nextafter(std::fabs(nearest), HUGE_VALF)} - std::fabs(double{nearest});
  return static_cast<double>(std::fabs(static_cast<long double>(actual) - expected)) / ulp;
}

TEST(Math, ExpWithinTwoUlps) {
  double worst = 0.0;
  for (float x = -103.0f; x < 88.7f; x += 0.000377f)
    worst = std::max(worst, ulps(cpu::exp(cpu::splat(x))[0], std::exp(static_cast<long double>(x))));
  EXPECT_LT(worst, 2.0);
}

TEST(Math, ExpAtTheEnds) {
  const auto e = [](float x) { return cpu::exp(cpu::splat(x))[3]; };
  EXPECT_EQ(e(0.0f), 1.0f);
  EXPECT_EQ(e(-0.0f), 1.0f);
  EXPECT_EQ(e(-HUGE_VALF), 0.0f);
  EXPECT_EQ(e(-1e30f), 0.0f);
  EXPECT_EQ(e(HUGE_VALF), HUGE_VALF);
  EXPECT_EQ(e(89.0f), HUGE_VALF);
  EXPECT_TRUE(std::isnan(e(std::nanf(""))));
  EXPECT_GT(e(-100.0f), 0.0f);  // subnormal, not flushed
}

TEST(Math, SinAndCosRoundCorrectly) {
  std::mt19937 random(1);
  int wrong = 0;
  constexpr int kAngles = 400000;
  for (int i = 0; i < kAngles; ++i) {
    // Every magnitude from 1e-7 to 1e7, and products as rope makes them.
    const double magnitude = std::pow(10.0, std::uniform_real_distribution<double>(-7, 7)(random));
    float angle = static_cast<float>(i % 2 ? magnitude : -magnitude);
    if (i % 4 == 0) angle = static_cast<float>(i) * static_cast<float>(std::pow(1e7, -double(i % 64) / 64));
    const cpu::SinCos a = cpu::sin_cos(double{angle});
    const auto exact = static_cast<long double>(angle);
    ASSERT_NEAR(a.sin, static_cast<double>(std::sin(exact)), 1e-15) << angle;
    ASSERT_NEAR(a.cos, static_cast<double>(std::cos(exact)), 1e-15) << angle;
    wrong += static_cast<float>(a.sin) != static_cast<float>(std::sin(exact));
    wrong += static_cast<float>(a.cos) != static_cast<float>(std::cos(exact));
  }
  EXPECT_EQ(wrong, 0);
}

TEST(Math, SoftplusRoundsCorrectlyNearlyAlways) {
  int wrong = 0;
  for (float x = -100.0f; x <= 20.0f; x += 0.00137f) {
    const float expected = static_cast<float>(std::log1p(std::exp(static_cast<long double>(x))));
    wrong += static_cast<float>(cpu::softplus(double{x})) != expected;
  }
  EXPECT_LE(wrong, 2);
  EXPECT_EQ(cpu::softplus(25.0), 25.0);
  EXPECT_TRUE(std::isnan(cpu::softplus(std::nan(""))));
}

TEST(Math, Bf16StoresRoundAsTheScalarConversion) {
  std::mt19937 random(3);
  for (int i = 0; i < 200000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(random()));
    bf16 out[cpu::kLanes];
    cpu::store8(out, cpu::splat(x));
    ASSERT_EQ(out[5].bits, to_bf16(x).bits) << x;
    ASSERT_EQ(std::bit_cast<uint32_t>(cpu::load8(out)[5]), uint32_t{out[5].bits} << 16);
  }
}

}  // namespace
}  // namespace kvcal::test
