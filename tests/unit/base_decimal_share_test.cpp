// Expected values by Python's fractions: math.ceil(Fraction('99.9') / 100 * 64000).
#include <gtest/gtest.h>

#include <limits>

#include "base/decimal_share.h"

namespace kvcal {
namespace {

TEST(DecimalShare, RanksOfPercentilesAreExact) {
  EXPECT_EQ(decimal_share(99.9, 2, 64000), 63936U);
  EXPECT_EQ(decimal_share(99.9, 2, 64001), 63937U);
  EXPECT_EQ(decimal_share(99.9, 2, 1000), 999U);
  EXPECT_EQ(decimal_share(99.95, 2, 1000000), 999500U);
  EXPECT_EQ(decimal_share(0.999, 0, 64000), 63936U);
  EXPECT_EQ(decimal_share(100, 2, 7), 7U);
  EXPECT_EQ(decimal_share(50, 2, 7), 4U);
  EXPECT_EQ(decimal_share(0, 2, 7), 0U);
}

TEST(DecimalShare, StaysExactAtTheEndsOfTheRange) {
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(decimal_share(100, 2, most), most);
  EXPECT_EQ(decimal_share(99.9999999999999, 2, most), 18446744073709533169U);
  EXPECT_EQ(decimal_share(12.5, 2, uint64_t{1} << 63), 1152921504606846976U);
  EXPECT_EQ(decimal_share(1e-7, 2, 1000000001), 2U);
  EXPECT_EQ(decimal_share(1e-300, 2, most), 1U);
  EXPECT_EQ(decimal_share(5e-324, 2, 1), 1U);
  EXPECT_EQ(decimal_share(3, 0, 5), 15U);
  EXPECT_EQ(decimal_share(20, -1, 5), 1000U);
}

}  // namespace
}  // namespace kvcal
