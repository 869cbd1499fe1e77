// Number formats against tables that were computed elsewhere (OCP OFP8, PyTorch's Float8_e4m3fn, CUDA's SATFINITE).
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "solve/format.h"

namespace kvcal {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// The nearest code by search, ties to the even one: a second way to the same answer.
double nearest(const NumberFormat& format, double y) {
  double best = 0, distance = kInf;
  bool best_is_even = true;
  for (int code = 0; code < 256; ++code) {
    const double value = decode(format, static_cast<uint8_t>(code));
    if (std::isnan(value)) continue;
    const double d = std::fabs(value - y);
    const bool even = (code & 1) == 0;
    if (d < distance || (d == distance && even && !best_is_even)) {
      best = value;
      distance = d;
      best_is_even = even;
    }
  }
  return best;
}

TEST(Format, Facts) {
  struct Facts {
    const char* name;
    double max, below_max, smallest_normal, smallest_subnormal;
    int n_finite;
  };
  for (const Facts& f :
       {Facts{"fp8_e4m3", 448, 416, 0.015625, 0.001953125, 254},
        Facts{"fp8_e4m3fnuz", 240, 224, 0.0078125, 0.0009765625, 255}, Facts{"int8", 127, 126, 8, 1, 255}}) {
    const NumberFormat& format = number_format(f.name);
    EXPECT_EQ(format.max, f.max) << f.name;
    EXPECT_EQ(format.smallest_normal, f.smallest_normal) << f.name;
    EXPECT_EQ(format.smallest_subnormal, f.smallest_subnormal) << f.name;
    int n_finite = 0;
    double largest = 0, second = 0, smallest = kInf;
    for (int code = 0; code < 256; ++code) {
      const double value = decode(format, static_cast<uint8_t>(code));
      if (std::isnan(value)) continue;
      ++n_finite;
      largest = std::max(largest, value);
      if (value > 0) smallest = std::min(smallest, value);
    }
    for (int code = 0; code < 256; ++code)
      if (const double v = decode(format, static_cast<uint8_t>(code)); v < largest) second = std::max(second, v);
    EXPECT_EQ(n_finite, f.n_finite) << f.name;
    EXPECT_EQ(largest, f.max) << f.name;
    EXPECT_EQ(second, f.below_max) << f.name;
    EXPECT_EQ(smallest, f.smallest_subnormal) << f.name;
  }
}

TEST(Format, KnownCodes) {
  const NumberFormat &fn = number_format("fp8_e4m3"), &fnuz = number_format("fp8_e4m3fnuz");
  EXPECT_EQ(decode(fn, 0x38), 1);
  EXPECT_EQ(decode(fn, 0x7E), 448);
  EXPECT_EQ(decode(fn, 0xFE), -448);
  EXPECT_TRUE(std::isnan(decode(fn, 0x7F)));
  EXPECT_TRUE(std::isnan(decode(fn, 0xFF)));
  EXPECT_TRUE(std::signbit(decode(fn, 0x80)));
  EXPECT_EQ(decode(fnuz, 0x40), 1);
  EXPECT_EQ(decode(fnuz, 0x7F), 240);
  EXPECT_TRUE(std::isnan(decode(fnuz, 0x80)));
  EXPECT_EQ(decode(number_format("int8"), 0x81), -127);
}

TEST(Format, FnBytesReadAsFnuzAreHalf) {
  for (int code = 0; code < 256; ++code) {
    const double fn = decode(number_format("fp8_e4m3"), static_cast<uint8_t>(code));
    const double fnuz = decode(number_format("fp8_e4m3fnuz"), static_cast<uint8_t>(code));
    if (code == 0x80 || std::isnan(fn)) continue;
    EXPECT_EQ(fnuz, fn / 2) << code;
  }
}

class EveryFormat : public testing::TestWithParam<const char*> {
 protected:
  const NumberFormat& format() const { return number_format(GetParam()); }
};

TEST_P(EveryFormat, CodesAreFixedPoints) {
  for (int code = 0; code < 256; ++code) {
    const double value = decode(format(), static_cast<uint8_t>(code));
    if (std::isnan(value)) continue;
    EXPECT_EQ(round_to(format(), value), value) << code;
  }
}

TEST_P(EveryFormat, MidpointsGoToTheEvenCode) {
  for (int code = 0; code < 127; ++code) {
    const double a = decode(format(), static_cast<uint8_t>(code)), b = decode(format(), static_cast<uint8_t>(code + 1));
    if (std::isnan(a) || std::isnan(b)) continue;
    const double middle = (a + b) / 2, even = (code & 1) == 0 ? a : b;
    EXPECT_EQ(round_to(format(), middle), even) << code;
    EXPECT_EQ(round_to(format(), -middle), -even) << code;
    EXPECT_EQ(round_to(format(), std::nextafter(middle, 0)), a) << code;
    EXPECT_EQ(round_to(format(), std::nextafter(middle, kInf)), b) << code;
  }
}

TEST_P(EveryFormat, EqualsASearchOverAllCodes) {
  std::mt19937 engine(7);
  for (int i = 0; i < 20000; ++i) {
    const double y =
        std::ldexp(static_cast<double>(engine()) / 4294967296.0 - 0.5, static_cast<int>(engine() % 24) - 12);
    ASSERT_EQ(round_to(format(), y), nearest(format(), y)) << y;
  }
}

TEST_P(EveryFormat, SaturatesAndKeepsNan) {
  const double max = format().max;
  for (const double y : {max, max * 1.01, 464.0 + max, 1e300, kInf}) {
    EXPECT_EQ(round_to(format(), y), max);
    EXPECT_EQ(round_to(format(), -y), -max);
  }
  EXPECT_TRUE(std::isnan(round_to(format(), kNan)));
  EXPECT_EQ(round_to(format(), 0.0), 0);
  EXPECT_EQ(round_to(format(), 5e-324), 0);
  EXPECT_EQ(round_to(format(), format().smallest_subnormal / 2), 0);  // a tie, and 0 is even
  EXPECT_EQ(round_to(format(), std::nextafter(format().smallest_subnormal / 2, 1)), format().smallest_subnormal);
}

TEST_P(EveryFormat, SmallestNormalIsWhereTheErrorIsASixteenth) {
  const double smallest = format().smallest_normal;
  double worst = 0, below = 0;
  for (int i = 0; i <= 10000; ++i) {
    const double y = smallest * std::pow(format().max / smallest, i / 10000.0), z = smallest * (0.5 + 0.5 * i / 10001);
    worst = std::max(worst, std::fabs(round_to(format(), y) - y) / y);
    below = std::max(below, std::fabs(round_to(format(), z) - z) / z);
  }
  EXPECT_LE(worst, 1.0 / 16);
  EXPECT_GT(below, 1.0 / 16);
}

INSTANTIATE_TEST_SUITE_P(Formats, EveryFormat, testing::Values("fp8_e4m3", "fp8_e4m3fnuz", "int8"),
                         [](const auto& format) { return std::string(format.param); });

TEST(Format, LargestRelativeErrorIsOneSeventeenth) {
  EXPECT_DOUBLE_EQ(std::fabs(round_to(number_format("fp8_e4m3"), 1.0625) - 1.0625) / 1.0625, 1.0 / 17);
}

TEST(Format, TableOfAKnownPost) {
  const NumberFormat& format = number_format("fp8_e4m3");
  const double scale = 0.025;
  struct Row {
    double x, stored, read;
  };
  for (const Row& row :
       {Row{5.0, 192, 4.8}, Row{11.2, 448, 11.2}, Row{15.0, 448, 11.2}, Row{20.0, 448, 11.2}, Row{50.0, 448, 11.2}}) {
    EXPECT_EQ(round_to(format, row.x / scale), row.stored) << row.x;
    EXPECT_DOUBLE_EQ(round_trip(format, row.x, scale), row.read) << row.x;
  }
  for (const double x : {15.3, 18.7, 12.1, 19.5, 16.8, 20.0, 14.2, 17.9})
    EXPECT_DOUBLE_EQ(round_trip(format, x, scale), 11.2);
}

TEST(Format, UnknownNames) {
  try {
    number_format("fp8_e4m4");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("fp8_e4m3"), std::string::npos) << e.what();
  }
  for (const char* name : {"nvfp4", "int4"}) {
    try {
      number_format(name);
      FAIL();
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(std::string(name) + " is not available"), std::string::npos) << e.what();
    }
  }
}

TEST(Scale, IsRoundedUpToFloat) {
  std::mt19937 engine(11);
  for (int i = 0; i < 10000; ++i) {
    const double exact = std::ldexp(1.0 + static_cast<double>(engine()) / 4294967296.0 * (1 - 1e-9),
                                    static_cast<int>(engine() % 200) - 100);
    const float rounded = scale_rounded_up(exact);
    EXPECT_GE(static_cast<double>(rounded), exact);
    EXPECT_LT(static_cast<double>(std::nextafter(rounded, 0.0F)), exact);
  }
  EXPECT_EQ(scale_rounded_up(0.03125), 0.03125F);
}

TEST(Scale, ThatIsNoNormalPositiveFloatIsRefused) {
  for (const double scale : {0.0, -1.0, kNan, kInf, 1e39, 1e-40, static_cast<double>(FLT_MIN) / 2})
    EXPECT_THROW(scale_rounded_up(scale), Error) << scale;
  EXPECT_EQ(scale_rounded_up(FLT_MIN), FLT_MIN);
  EXPECT_EQ(scale_rounded_up(FLT_MAX), FLT_MAX);
}

}  // namespace
}  // namespace kvcal
