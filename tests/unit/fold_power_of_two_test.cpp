#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "fold/power_of_two.h"
#include "tensor/small_floats.h"

namespace kvcal {
namespace {

constexpr int kMost = 300;

/// Whether a number of the type stays what it is: 0, infinite or NaN.
bool is_fixed(double x) { return x == 0 || !std::isfinite(x); }

/// Every code of a type by `value`, against products in double: exact ones are found, all others refused.
template <class Code, class Value>
void expect_products(DType type, Code n_codes, double least_normal, Value value) {
  for (uint32_t i = 0; i <= n_codes; ++i)
    for (int e = -kMost; e <= kMost; e += (e > -20 && e < 20) ? 1 : 7) {
      const auto code = static_cast<Code>(i);
      Code refusing = code, keeping = code;
      const bool taken = multiply(type, reinterpret_cast<std::byte*>(&refusing), 1, e);
      const bool kept = multiply(type, reinterpret_cast<std::byte*>(&keeping), 1, e, Subnormals::KeepExact);
      const double before = value(code), product = std::ldexp(before, e);
      if (is_fixed(before) || e == 0) {
        ASSERT_TRUE(taken && kept && refusing == code && keeping == code) << i << ", 2^" << e;
        continue;
      }
      ASSERT_TRUE(!kept || value(keeping) == product) << i << ", 2^" << e;
      ASSERT_TRUE(!taken || value(refusing) == product) << i << ", 2^" << e;
      const bool leaves = std::fabs(before) >= least_normal && std::fabs(product) < least_normal;
      ASSERT_EQ(taken, kept && !leaves) << i << ", 2^" << e;
      if (!kept) {  // then no code has this value
        bool found = false;
        for (uint32_t j = 0; j <= n_codes && !found && n_codes < 256; ++j)
          found = value(static_cast<Code>(j)) == product;
        ASSERT_FALSE(found) << i << ", 2^" << e;
      }
    }
}

TEST(PowerOfTwo, OfE4m3) {
  expect_products<uint8_t>(DType::F8E4M3, 255, 0x1p-6, [](uint8_t c) { return e4m3_values()[c]; });
}

TEST(PowerOfTwo, OfE5m2) {
  expect_products<uint8_t>(DType::F8E5M2, 255, 0x1p-14, [](uint8_t c) { return e5m2_values()[c]; });
}

TEST(PowerOfTwo, OfBf16) {
  expect_products<uint16_t>(DType::BF16, 65535, 0x1p-126, [](uint16_t c) { return to_float(bf16{c}); });
}

TEST(PowerOfTwo, OfF16) {
  expect_products<uint16_t>(DType::F16, 65535, 0x1p-14, [](uint16_t c) { return to_float(f16{c}); });
}

// bf16 and f16 refuse what rounding would change: here what a product rounded to the type says.
TEST(PowerOfTwo, RefusesOnlyWhatIsInexact) {
  for (uint32_t i = 1; i < 0x7F80; i += 3)
    for (const int e : {-260, -130, -40, -7, -1, 1, 7, 40, 130, 250}) {
      auto code = static_cast<uint16_t>(i);
      const double product = std::ldexp(static_cast<double>(to_float(bf16{code})), e);
      const auto narrow = static_cast<float>(product);
      const bool fits = std::isfinite(narrow) && static_cast<double>(narrow) == product &&
                        static_cast<double>(round_to_bf16(narrow)) == product;
      ASSERT_EQ(multiply(DType::BF16, reinterpret_cast<std::byte*>(&code), 1, e, Subnormals::KeepExact), fits)
          << i << ", 2^" << e;
    }
}

TEST(PowerOfTwo, OfFloatAndDouble) {
  for (const float x : {1.5f, -3.25e-38f, 1e-45f, 3.4e38f, 0.0f})
    for (const int e : {-3, 0, 1, 20}) {
      float product = x;
      const bool taken = multiply(DType::F32, reinterpret_cast<std::byte*>(&product), 1, e, Subnormals::KeepExact);
      const double wanted = std::ldexp(static_cast<double>(x), e);
      const bool fits =
          std::isfinite(static_cast<float>(wanted)) && static_cast<double>(static_cast<float>(wanted)) == wanted;
      EXPECT_EQ(taken, fits) << x << ", 2^" << e;
      EXPECT_TRUE(!taken || static_cast<double>(product) == wanted);
    }
  double wide = -1e300;
  EXPECT_TRUE(multiply(DType::F64, reinterpret_cast<std::byte*>(&wide), 1, -5));
  EXPECT_EQ(wide, std::ldexp(-1e300, -5));
}

TEST(PowerOfTwo, OfExponents) {
  std::array<uint8_t, 3> codes = {0, 127, 255};
  EXPECT_TRUE(multiply(DType::U8, reinterpret_cast<std::byte*>(codes.data()), 3, 5));
  EXPECT_EQ(codes, (std::array<uint8_t, 3>{5, 132, 255}));
  EXPECT_FALSE(multiply(DType::F8E8M0, reinterpret_cast<std::byte*>(codes.data()), 1, -6));
  codes = {254, 0, 0};
  EXPECT_FALSE(multiply(DType::U8, reinterpret_cast<std::byte*>(codes.data()), 1, 1));
}

TEST(PowerOfTwo, OfNothingElse) {
  std::byte byte{3};
  EXPECT_FALSE(takes_powers(DType::I32));
  EXPECT_FALSE(multiply(DType::I8, &byte, 1, 1));
}

/// Every BF16 gain w, in both types: the new one is exact and leads back, or it is refused.
TEST(PowerOfTwo, OfOnePlusAGain) {
  size_t n_taken = 0;
  for (uint32_t i = 0; i <= 0xFFFF; ++i)
    for (const int e : {-9, -3, -1, 1, 2, 8}) {
      const auto code = static_cast<uint16_t>(i);
      uint16_t half = code;
      uint32_t whole = i << 16;
      const bool taken = multiply_one_plus(DType::BF16, reinterpret_cast<std::byte*>(&half), 1, e);
      ASSERT_EQ(multiply_one_plus(DType::F32, reinterpret_cast<std::byte*>(&whole), 1, e), taken);
      if (!taken) continue;
      ++n_taken;
      ASSERT_EQ(whole, uint32_t{half} << 16);
      const auto before = std::bit_cast<float>(i << 16), after = std::bit_cast<float>(whole);
      ASSERT_EQ(1 + after, std::ldexp(1 + before, e)) << before << ", 2^" << e;
      ASSERT_TRUE(multiply_one_plus(DType::BF16, reinterpret_cast<std::byte*>(&half), 1, -e));
      ASSERT_EQ(half, code);
    }
  EXPECT_GT(n_taken, 300);
  float outside_bf16 = 0x1.01p-3F, no_product = 0.3F;
  EXPECT_FALSE(multiply_one_plus(DType::F32, reinterpret_cast<std::byte*>(&outside_bf16), 1, 1));
  EXPECT_FALSE(multiply_one_plus(DType::F32, reinterpret_cast<std::byte*>(&no_product), 1, 1));
}

}  // namespace
}  // namespace kvcal
