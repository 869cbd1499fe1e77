// Sizes as typed and as printed, worked out by hand.
#include <gtest/gtest.h>

#include "base/size_text.h"
#include "harness/message_of.h"

namespace kvcal {
namespace {

TEST(Sizes, are_read_with_their_unit) {
  EXPECT_EQ(parse_size("x", "80GiB"), 85899345920U);
  EXPECT_EQ(parse_size("x", "80 GB"), 80000000000U);
  EXPECT_EQ(parse_size("x", "1.5MiB"), 1572864U);
  EXPECT_EQ(parse_size("x", "7B"), 7U);
  for (const char* bad :
       {"", "80", "80G", "GiB", "-1GiB", "+1GiB", "0GB", "1e3GB", "nanGB", "infGB", "80gib", "80GiBx", "999999999TiB"})
    EXPECT_NE(message_of([&] { parse_size("--gpu-memory", bad); }), "no error") << bad;
  EXPECT_EQ(message_of([] { parse_size("--gpu-memory", "80G"); }),
            "--gpu-memory is '80G', expected a size with its unit: 80GiB (2^30 bytes) or 80GB (10^9)");
}

TEST(Sizes, are_printed_in_binary_units) {
  EXPECT_EQ(gib_text(85899345920), "80.0 GiB");
  EXPECT_EQ(gib_text(536870912), "512.0 MiB");
  EXPECT_EQ(gib_text(-67019227136), "-62.4 GiB");
  EXPECT_EQ(gib_text(0), "0.0 GiB");
  EXPECT_EQ(gib_text(3072), "3.0 KiB");
  EXPECT_EQ(gib_text(-12), "-12 bytes");
  EXPECT_EQ(bytes_text(12), "12 bytes");
  EXPECT_EQ(bytes_text(3072), "3.0 KiB");
  EXPECT_EQ(bytes_text(1610612736), "1.5 GiB");
}

}  // namespace
}  // namespace kvcal
