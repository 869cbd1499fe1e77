// Rows of a cache rounded to what it stores, against the definition with a table of all values of a format.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "parity/ops_cases.h"

namespace kvcal::test {
namespace {

constexpr Precision kBoth[] = {Precision::F32, Precision::BF16};
constexpr CacheFormat kFormats[] = {CacheFormat::E4m3, CacheFormat::E4m3Fnuz, CacheFormat::E5m2, CacheFormat::Int8};

/// Magnitudes by code: exponent bits above so many of mantissa, with this bias, up to the largest.
std::vector<double> floats(int mantissa_bits, int bias, double largest) {
  std::vector<double> all;
  for (int code = 0; all.empty() || all.back() < largest; ++code) {
    const int exponent = code >> mantissa_bits, mantissa = code & ((1 << mantissa_bits) - 1);
    const int significand = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
    all.push_back(significand * std::pow(2.0, std::max(exponent, 1) - bias - mantissa_bits));
  }
  return all;
}

const std::vector<double>& magnitudes(CacheFormat format) {
  static const std::vector<double> e4m3 = floats(3, 7, 448), fnuz = floats(3, 8, 240), e5m2 = floats(2, 15, 57344),
                                   e2m1 = floats(1, 1, 6), whole = floats(7, -6, 127);
  switch (format) {
    case CacheFormat::E4m3:
    case CacheFormat::IndexKey:
      return e4m3;
    case CacheFormat::E4m3Fnuz:
      return fnuz;
    case CacheFormat::E5m2:
      return e5m2;
    case CacheFormat::Nvfp4:
      return e2m1;
    case CacheFormat::Int8:
      return whole;
    case CacheFormat::Uint4:
    case CacheFormat::RotatedInt4:
      break;  // served_rows_test.cpp
  }
  return whole;
}

/// The nearest one, of two equally near that with the even code; none beyond the largest.
double nearest(CacheFormat format, double x) {
  const std::vector<double>& all = magnitudes(format);
  const double size = std::min(std::fabs(x), all.back());
  const auto above = static_cast<size_t>(std::lower_bound(all.begin(), all.end(), size) - all.begin());
  if (above == 0) return 0;
  const double up = all[above] - size, down = size - all[above - 1];
  return std::copysign(up < down || (up == down && above % 2 == 0) ? all[above] : all[above - 1], x);
}

/// As a server computes it: the quotient and the product are floats.
double stored(CacheFormat format, double x, float write, float read) {
  const float quotient = static_cast<float>(x) / write;
  return double{static_cast<float>(nearest(format, double{quotient})) * read};
}

constexpr int64_t kTokens = 5, kHeads = 3;

struct Scales {
  Values write, read;
  CacheRounding of(CacheFormat format, Ops& op) const { return {format, op.upload(write), op.upload(read)}; }
};

Scales scales_of(int64_t n, double about) {
  std::vector<double> write, read;
  for (int64_t i = 0; i < n; ++i) {
    write.push_back(static_cast<float>(about * (1 + 0.37 * static_cast<double>(i % 11))));
    read.push_back(i % 2 ? write.back() : static_cast<float>(write.back() * 1.25));
  }
  return {values({n}, DType::F32, write), values({n}, DType::F32, read)};
}

TEST(CacheRounding, StaticScalesOfTensorsHeadsAndChannels) {
  for (const Precision p : kBoth)
    for (const CacheFormat format : kFormats)
      for (const int64_t dim : {1, 24, 128})
        for (const int64_t n : {int64_t{1}, kHeads, kHeads * dim}) {
          SCOPED_TRACE(std::to_string(static_cast<int>(format)) + " " + std::to_string(dim) + " " + std::to_string(n));
          const auto op = backend(p);
          const Values x = random_values({kTokens, kHeads, dim}, op->activation_dtype(), 1, Fill::Outliers);
          const Scales s = scales_of(n, 3.0 / double{largest_of(format)});
          const std::vector<double> y = read(op->round_cache(x, s.of(format, *op)));
          for (size_t i = 0; i < y.size(); ++i) {
            const auto head = static_cast<int64_t>(i) / dim % kHeads, channel = static_cast<int64_t>(i) % dim;
            const auto at = static_cast<size_t>(n == 1 ? 0 : n == kHeads ? head : head * dim + channel);
            const double expected =
                stored(format, x.real[i], static_cast<float>(s.write.real[at]), static_cast<float>(s.read.real[at]));
            ASSERT_EQ(y[i], round_to(p, expected)) << "element " << i;
          }
        }
}

TEST(CacheRounding, DynamicScalesOfARow) {
  for (const Precision p : kBoth)
    for (const CacheFormat format : kFormats)
      for (const Fill fill : {Fill::Normal, Fill::Zeros}) {
        constexpr int64_t kDim = 72;
        const auto op = backend(p);
        const Values x = random_values({kTokens, kHeads, kDim}, op->activation_dtype(), 2, fill);
        const std::vector<double> y = read(op->round_cache(x, {format, {}, {}}));
        for (size_t row = 0; row < y.size(); row += kDim) {
          float absmax = 0;
          for (size_t c = 0; c < kDim; ++c) absmax = std::max(absmax, static_cast<float>(std::fabs(x.real[row + c])));
          const float scale = absmax > 0 ? absmax / largest_of(format) : 1.0f;
          for (size_t c = 0; c < kDim; ++c)
            ASSERT_EQ(y[row + c], round_to(p, stored(format, x.real[row + c], scale, scale))) << "element " << row + c;
        }
      }
}

TEST(CacheRounding, KeysOfAnIndexerHavePowersOfTwoForScales) {
  for (const Precision p : kBoth)
    for (const double sigma : {1.0, 1e-6, 3e4, 0.0}) {
      constexpr int64_t kDim = 128;
      const auto op = backend(p);
      Values x = random_values({kTokens, 1, kDim}, op->activation_dtype(), 2, Fill::Normal, sigma);
      std::vector<double> with_448 = x.real;
      with_448[5] = 448;  // the scale is 1 where nothing is larger
      if (sigma == 1.0) x = values({kTokens, 1, kDim}, op->activation_dtype(), with_448);
      const std::vector<double> y = read(op->round_cache(x, {CacheFormat::IndexKey, {}, {}}));
      for (size_t row = 0; row < y.size(); row += kDim) {
        double absmax = 1e-4;
        for (size_t c = 0; c < kDim; ++c) absmax = std::max(absmax, std::fabs(x.real[row + c]));
        const auto scale = static_cast<float>(std::exp2(std::ceil(std::log2(absmax / 448))));
        for (size_t c = 0; c < kDim; ++c)
          ASSERT_EQ(y[row + c], round_to(p, stored(CacheFormat::IndexKey, x.real[row + c], scale, scale)))
              << "element " << row + c << ", sigma " << sigma;
      }
    }
}

TEST(CacheRounding, BlocksWithScalesOfTheirOwn) {
  for (const Precision p : kBoth)
    for (const Fill fill : {Fill::Normal, Fill::Outliers, Fill::Zeros}) {
      constexpr int64_t kDim = 64;
      const auto op = backend(p);
      const Values x = random_values({kTokens, kHeads, kDim}, op->activation_dtype(), 3, fill);
      const Scales s = scales_of(1, 0.01);
      const auto write = static_cast<float>(s.write.real[0]), read_scale = static_cast<float>(s.read.real[0]);
      const std::vector<double> y = read(op->round_cache(x, s.of(CacheFormat::Nvfp4, *op)));
      for (size_t block = 0; block < y.size(); block += 16) {
        float absmax = 0;
        for (size_t c = 0; c < 16; ++c) absmax = std::max(absmax, static_cast<float>(std::fabs(x.real[block + c])));
        const auto of_block = static_cast<float>(nearest(CacheFormat::E4m3, double{absmax / 6.0f / write}));
        for (size_t c = 0; c < 16; ++c) {
          const double expected =
              of_block == 0 ? 0
                            : stored(CacheFormat::Nvfp4, x.real[block + c], write * of_block, read_scale * of_block);
          ASSERT_EQ(y[block + c], round_to(p, expected)) << "element " << block + c;
        }
      }
    }
}

// All numbers of bfloat16 with a scale of 1.
TEST(CacheRounding, EveryNumberOfBf16) {
  std::vector<double> x;
  for (uint32_t code = 0; code < 0x10000; ++code)
    if ((code & 0x7F80) != 0x7F80) x.push_back(double{std::bit_cast<float>(code << 16)});
  const auto n = static_cast<int64_t>(x.size());
  const auto op = backend(Precision::BF16);
  const Scales one = {values({1}, DType::F32, {1}), values({1}, DType::F32, {1})};
  for (const CacheFormat format : kFormats) {
    const std::vector<double> y = read(op->round_cache(values({n, 1, 1}, DType::BF16, x), one.of(format, *op)));
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], round_to(Precision::BF16, nearest(format, x[i]))) << x[i];
  }
}

TEST(CacheRounding, NanStays) {
  const auto op = backend(Precision::F32);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Scales one = {values({1}, DType::F32, {1}), values({1}, DType::F32, {1})};
  for (const CacheFormat format : kFormats)
    EXPECT_TRUE(std::isnan(read(op->round_cache(values({1, 1, 2}, DType::F32, {1, nan}), one.of(format, *op)))[1]));
}

TEST(CacheRounding, RefusesScalesThatDoNotFit) {
  const auto op = backend(Precision::F32);
  const Values x = random_values({2, 3, 24}, DType::F32, 1);
  EXPECT_THROW(op->round_cache(x, scales_of(2, 1).of(CacheFormat::E4m3, *op)), Error);
  EXPECT_THROW(op->round_cache(x, scales_of(1, 1).of(CacheFormat::Nvfp4, *op)), Error);  // 24 channels
  EXPECT_THROW(op->round_cache(x, scales_of(1, 1).of(CacheFormat::IndexKey, *op)), Error);
  EXPECT_THROW(op->round_cache(x, {CacheFormat::E4m3, op->upload(values({1}, DType::F32, {1})),
                                   op->upload(values({3}, DType::F32, {1, 1, 1}))}),
               Error);
}

}  // namespace
}  // namespace kvcal::test
