#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/error.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace kvcal {
namespace {

TEST(Bf16, every_code_survives_the_way_through_float) {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const bf16 x{static_cast<uint16_t>(code)};
    const float f = to_float(x);
    if (std::isnan(f))
      EXPECT_TRUE(std::isnan(to_float(to_bf16(f))));
    else
      EXPECT_EQ(to_bf16(f).bits, code);
  }
}

TEST(Bf16, rounds_to_nearest_and_ties_to_even) {
  EXPECT_EQ(round_to_bf16(1.0f + 0x1p-8f), 1.0f) << "tie: down to even";
  EXPECT_EQ(round_to_bf16(1.0f + 3 * 0x1p-8f), 1.0f + 0x1p-6f) << "tie: up to even";
  EXPECT_EQ(round_to_bf16(1.0f + 0x1.02p-8f), 1.0f + 0x1p-7f) << "just above the tie";
  EXPECT_EQ(round_to_bf16(std::numeric_limits<float>::max()), std::numeric_limits<float>::infinity());
  EXPECT_EQ(round_to_bf16(-0.0f), 0.0f);
  EXPECT_TRUE(std::signbit(round_to_bf16(-0.0f)));
  EXPECT_TRUE(std::isnan(round_to_bf16(std::bit_cast<float>(0x7F800001u))))
      << "a NaN whose high bits are an infinity's";
}

TEST(F16, known_values) {
  const auto value = [](uint16_t bits) { return to_float(f16{bits}); };
  EXPECT_EQ(value(0x3C00), 1.0f);
  EXPECT_EQ(value(0xC000), -2.0f);
  EXPECT_EQ(value(0x7BFF), 65504.0f);
  EXPECT_EQ(value(0x0001), 0x1p-24f);
  EXPECT_EQ(value(0x83FF), -1023 * 0x1p-24f);
  EXPECT_EQ(value(0x0400), 0x1p-14f);
  EXPECT_EQ(value(0x7C00), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(value(0x7E00)));
  EXPECT_TRUE(std::signbit(value(0x8000)));
}

TEST(StoredAs, is_the_nearest_half_and_even_of_two) {
  std::vector<float> halves;  // 0 to 65504, ascending, as their codes are
  for (uint16_t code = 0; code < 0x7C00; ++code) halves.push_back(to_float(f16{code}));
  const auto rounded = [](float x) { return stored_as(DType::F16, x); };
  for (size_t i = 0; i + 1 < halves.size(); ++i) {
    const float low = halves[i], high = halves[i + 1], middle = low + (high - low) / 2;
    ASSERT_EQ(rounded(low), low);
    ASSERT_EQ(rounded(middle), i % 2 == 0 ? low : high) << middle;
    ASSERT_EQ(rounded(std::nextafter(middle, 0.0f)), low) << middle;
    ASSERT_EQ(rounded(std::nextafter(middle, 1e9f)), high) << middle;
    ASSERT_EQ(rounded(-middle), -rounded(middle));
  }
  EXPECT_EQ(rounded(std::nextafter(65520.0f, 0.0f)), 65504.0f);
  EXPECT_EQ(rounded(65520.0f), std::numeric_limits<float>::infinity());
  EXPECT_EQ(rounded(-1e30f), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(rounded(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::signbit(rounded(-1e-30f)));
}

TEST(StoredAs, knows_what_is_wider) {
  EXPECT_EQ(stored_as(DType::F32, 1.0f + 0x1p-20f), 1.0f + 0x1p-20f);
  EXPECT_EQ(stored_as(DType::BF16, 1.0f + 3 * 0x1p-8f), 1.0f + 0x1p-6f);
}

TEST(Convert, reads_unaligned_values_and_refuses_integers) {
  alignas(8) char bytes[1 + 3 * sizeof(double)];
  const double values[] = {1.5, -2.25, 1e300};
  std::memcpy(bytes + 1, values, sizeof values);
  float out[3];
  convert_to_float(DType::F64, bytes + 1, out, 3);
  EXPECT_EQ(out[0], 1.5f);
  EXPECT_EQ(out[1], -2.25f);
  EXPECT_TRUE(std::isinf(out[2]));
  EXPECT_THROW(convert_to_float(DType::I32, bytes, out, 1), Error);
}

TEST(DType, names_go_both_ways) {
  for (const char* name : {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "I64", "U8", "BOOL"}) {
    const auto type = dtype_from_name(name);
    ASSERT_TRUE(type) << name;
    EXPECT_EQ(name_of(*type), name);
  }
  EXPECT_FALSE(dtype_from_name("BF17"));
  EXPECT_EQ(size_of(DType::BF16), 2u);
  EXPECT_EQ(bits_of(DType::F4), 4);
}

TEST(Tensor, views_share_bytes_and_print_their_shape) {
  const Storage s({4, 6}, DType::F32);
  const Tensor t = s.tensor();
  EXPECT_EQ(str(t), "F32 [4, 6]");
  EXPECT_EQ(t.rows(1, 2).data, t.as<float>() + 6);
  EXPECT_EQ(str(t.rows(1, 2).reshaped({3, 4})), "F32 [3, 4]");
  EXPECT_EQ(t.rows(4, 0).elements(), 0);
  EXPECT_EQ(Shape({2, 3})[-1], 3);
}

}  // namespace
}  // namespace kvcal
