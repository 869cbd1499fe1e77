#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include "base/number_text.h"

namespace kvcal {
namespace {

TEST(NumberText, ShortestAndAlwaysAFraction) {
  EXPECT_EQ(shortest_float(1.0f), "1.0");
  EXPECT_EQ(shortest_float(-0.0f), "-0.0");
  EXPECT_EQ(shortest_float(0.1f), "0.1");
  EXPECT_EQ(shortest_double(0.1f), "0.10000000149011612");
  EXPECT_EQ(shortest_double(448), "448.0");
  EXPECT_EQ(shortest_float(1e-45f), "1e-45");
  EXPECT_EQ(shortest_double(1e22), "1e+22");
  EXPECT_EQ(shortest_double(0.03125), "0.03125");
}

TEST(NumberText, ReadsBackExactly) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const double d = std::bit_cast<double>(random());
    if (std::isfinite(d)) {
      EXPECT_EQ(std::strtod(shortest_double(d).c_str(), nullptr), d);
    }
    const float f = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isfinite(f)) {
      EXPECT_EQ(std::strtof(shortest_float(f).c_str(), nullptr), f);
    }
  }
  EXPECT_EQ(std::strtod(shortest_double(std::numeric_limits<double>::denorm_min()).c_str(), nullptr),
            std::numeric_limits<double>::denorm_min());
}

TEST(NumberText, ForPeople) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
  EXPECT_EQ(grouped(-123), "-123");
  EXPECT_EQ(share_in_percent(0.0265), "2.65 %");
  EXPECT_EQ(share_in_percent(4.3e-11), "4.3e-09 %");
  EXPECT_EQ(share_in_percent(0), "0.00 %");
  EXPECT_EQ(formatted("%.3g %%", 12.3456), "12.3 %");
  EXPECT_EQ(ranges_text(std::vector<int64_t>{0, 1, 2, 4, 5, 8}), "0-2, 4-5, 8");
  EXPECT_EQ(ranges_text({}), "");
}

}  // namespace
}  // namespace kvcal
