// Rows in formats with scales of their own, at the edges that no ordinary layer reaches.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "stats/row_formats.h"
#include "tensor/dtype.h"

namespace kvcal {
namespace {

/// Rows of one head.
std::vector<RowFormatSum> sums_of(const std::vector<std::vector<float>>& rows, DType dtype = DType::F32) {
  const auto n = static_cast<int64_t>(rows.size()), width = static_cast<int64_t>(rows[0].size());
  const Storage x({n, 1, width}, dtype);
  for (int64_t r = 0; r < n; ++r)
    for (int64_t c = 0; c < width; ++c) {
      const float value = rows[static_cast<size_t>(r)][static_cast<size_t>(c)];
      if (dtype == DType::F32)
        x.tensor().as<float>()[r * width + c] = value;
      else
        x.tensor().as<bf16>()[r * width + c] = to_bf16(value);
    }
  std::vector<int32_t> all(rows.size());
  std::iota(all.begin(), all.end(), 0);
  ThreadPool pool(1);
  RowFormatTables tables;
  tables.add(x.tensor(), all, std::vector<int64_t>{width}, pool);
  return tables.encode(0);
}

TEST(RowFormats, OfARowByHand) {
  std::vector<float> row(16, 0.0f);
  row[0] = 1;
  row[5] = 0.80078125f;
  row[9] = -0.5f;
  const std::vector<RowFormatSum> sums = sums_of({row});
  ASSERT_EQ(sums.size(), 1U);
  const double energy = 1 + 0.80078125 * 0.80078125 + 0.25, unit = 0x1p-32;  // in [1, 2)
  EXPECT_EQ(sums[0].octave, 1023);
  EXPECT_EQ(sums[0].rows, 1U);
  EXPECT_NEAR(static_cast<double>(sums[0].energy) * unit, energy, 1e-9);
  // Of 448 steps 1 and -.5 are 448 and 224, and .80078 is 358.75, which becomes 352.
  EXPECT_NEAR(static_cast<double>(sums[0].dynamic_error) * unit, std::pow(352.0 / 448 - 0.80078125, 2), 1e-8);
  // 224 is a number of E4M3, so the scale is 1/6: 1 and -.5 are kept, .80078 · 6 = 4.8 becomes 4.
  EXPECT_NEAR(static_cast<double>(sums[0].nvfp4_error) * unit, std::pow(4.0 / 6 - 0.80078125, 2), 1e-7);
}

// Channel 1 changes its sign: (1, -.75) becomes (.25, 1.75), with a step of .1. Zero is code 0, .25 code 3, as 2.5
// steps are rounded up, and 1.75 code 15. They are read as .3 and 1.5, which are turned back into .9 and .6.
TEST(RowFormats, OfARowInInt4ByHand) {
  const std::vector<RowFormatSum> sums = sums_of({{1, 0.75f}});
  ASSERT_EQ(sums.size(), 1U);
  EXPECT_EQ(sums[0].octave, 1023);
  EXPECT_NEAR(static_cast<double>(*sums[0].int4_error) * 0x1p-32, 0.1 * 0.1 + 0.15 * 0.15, 1e-6);
}

// A step of 10^-6 at least, so rows below half of it are lost; and so are those whose sums overflow.
TEST(RowFormats, RowsThatInt4Loses) {
  const std::vector<std::vector<float>> lost = {std::vector<float>(64, 0x1p-30f), std::vector<float>(64, 0x1p125f)};
  for (const std::vector<float>& row : lost) {
    const RowFormatSum sum = sums_of({row})[0];
    EXPECT_EQ(sum.int4_error, sum.energy);
    EXPECT_EQ(sum.dynamic_error, 0U);
  }
}

// The largest power of two that divides its width may be 512. No server stores a row of two parts so.
TEST(RowFormats, RowsThatAreNotTriedInInt4) {
  EXPECT_FALSE(sums_of({std::vector<float>(1024, 1)})[0].int4_error);
  EXPECT_TRUE(sums_of({std::vector<float>(1536 + 256, 1)})[0].int4_error);
  const Storage x({1, 1, 32}, DType::F32);
  std::fill_n(x.tensor().as<float>(), 32, 1.0f);
  ThreadPool pool(1);
  RowFormatTables tables;
  tables.add(x.tensor(), std::vector<int32_t>{0}, std::vector<int64_t>{16, 16}, pool);
  EXPECT_FALSE(tables.encode(0)[0].int4_error);
}

TEST(RowFormats, PowersOfTwoChangeTheOctaveAlone) {
  std::vector<float> row(24);
  for (size_t c = 0; c < row.size(); ++c) row[c] = round_to_bf16(std::sin(static_cast<float>(c * c) + 1));
  const RowFormatSum at_one = sums_of({row})[0];
  for (const int exponent : {-100, -1, 1, 126}) {
    std::vector<float> scaled = row;
    for (float& x : scaled) x = std::ldexp(x, exponent);
    for (const DType dtype : {DType::F32, DType::BF16}) {
      RowFormatSum sum = sums_of({scaled}, dtype)[0];
      EXPECT_EQ(sum.octave, at_one.octave + 2 * exponent);
      sum.octave = at_one.octave;
      if (std::abs(exponent) > 1) sum.int4_error = at_one.int4_error;  // it has a smallest step, and sums may overflow
      EXPECT_EQ(sum, at_one);
    }
  }
}

TEST(RowFormats, ExtremesFitIntoTheOctavesThatFilesMayHave) {
  const float largest = 0x1.FEp127f, smallest = 0x1p-133f;
  for (const float x : {largest, smallest}) {
    const RowFormatSum sum = sums_of({std::vector<float>(576, x)})[0];
    EXPECT_GE(sum.octave, kLeastEnergyOctave);
    EXPECT_LE(sum.octave, kMostEnergyOctave);
    EXPECT_EQ(sum.dynamic_error >> 8, 0U);  // the largest number of a row is kept
  }
}

TEST(RowFormats, ZeroAndBrokenRows) {
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<RowFormatSum> sums = sums_of({{0, -0.0f}, {kInf, 1}, {kNan, 1}, {0, 0}, {1, 0}});
  ASSERT_EQ(sums.size(), 2U);
  EXPECT_EQ(sums[0], (RowFormatSum{0, 0, 2, 0, 0, 0, 0}));
  EXPECT_EQ(sums[1].rows, 1U);
}

TEST(RowFormats, NoErrorIsLargerThanItsRow) {
  // A block that is 2^19 times smaller than another has a scale of zero, and is lost.
  std::vector<float> row(32, 1);
  std::fill_n(row.begin(), 16, 0x1p-19f);
  const Storage x({1, 1, 32}, DType::F32);
  std::copy(row.begin(), row.end(), x.tensor().as<float>());
  ThreadPool pool(1);
  RowFormatTables tables;
  tables.add(x.tensor(), std::vector<int32_t>{0}, std::vector<int64_t>{16, 16}, pool);
  const RowFormatSum lost = tables.encode(0)[0], kept = tables.encode(1)[0];
  EXPECT_EQ(lost.nvfp4_error, lost.energy);
  EXPECT_EQ(lost.dynamic_error, lost.energy);
  EXPECT_EQ(lost.octave, 1023 + 4 - 38);
  EXPECT_LT(kept.nvfp4_error, kept.energy / 100);
}

TEST(RowFormats, EnergiesAddUpOverOctaves) {
  const std::vector<RowFormatSum> sums = sums_of({{3, 4}, {0.3f, 0.4f}, {0, 0}});
  const RowFormatEnergies all = energies_of(sums, 0);
  EXPECT_EQ(all.rows, 3U);
  const double small = std::pow(round_to_bf16(0.3f), 2) + std::pow(round_to_bf16(0.4f), 2);
  EXPECT_NEAR(all.energy, 25 + small, 1e-7);
  EXPECT_EQ(energies_of(sums, 1).rows, 0U);
  EXPECT_GT(all.int4_error.value(), 0);
  std::vector<RowFormatSum> partly = sums;
  partly[0].int4_error.reset();  // of rows of zeros
  EXPECT_FALSE(energies_of(partly, 0).int4_error);
  add(partly[0], sums[0]);
  EXPECT_FALSE(partly[0].int4_error);
}

}  // namespace
}  // namespace kvcal
