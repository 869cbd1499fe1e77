#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "evaluate/row_errors.h"

namespace kvcal {
namespace {

KvLayout grouped_heads() {
  KvLayout layout;
  layout.n_kv_heads = 2, layout.head_dim_k = 4, layout.head_dim_v = 2;
  return layout;
}

Storage rows_of(const std::vector<float>& values, int64_t heads, int64_t channels) {
  Storage s(Shape({static_cast<int64_t>(values.size()) / (heads * channels), heads, channels}), DType::F32);
  std::ranges::copy(values, s.tensor().as<float>());
  return s;
}

RowErrors of_keys(const std::vector<float>& rows, const std::vector<float>& stored) {
  RowErrors errors;
  errors.add(grouped_heads(), CacheSite::Key, rows_of(rows, 2, 4).tensor(), rows_of(stored, 2, 4).tensor());
  return errors;
}

TEST(RowErrors, AreThoseOfTheWorstHead) {
  const RowErrors errors = of_keys({3, 4, 0, 0, 10, 0, 0, 0}, {3, 4, 1, 0, 10, 0, 0, 1});
  EXPECT_NEAR(errors.of(0, CacheSite::Key).value(), 0.2, 1e-9);
  EXPECT_FALSE(errors.of(0, CacheSite::Value)) << "which was not shown";
  EXPECT_FALSE(errors.of(1, CacheSite::Key)) << "of another cache";
}

TEST(RowErrors, OfALatentRowAreThoseOfTheWorsePart) {
  KvLayout layout;
  layout.kind = "mla", layout.n_kv_heads = 1, layout.head_dim_k = 3, layout.latent_dim = 2;
  RowErrors errors;
  errors.add(layout, CacheSite::Latent, rows_of({300, 400, 2}, 1, 3).tensor(), rows_of({300, 400, 1}, 1, 3).tensor());
  EXPECT_EQ(errors.of(0, CacheSite::Latent), 0.5) << "the part with RoPE, small beside the other";
}

TEST(RowErrors, DoNotDependOnTheOrderOfRows) {
  std::vector<RowErrors> parts;
  for (int i = 0; i < 40; ++i) {
    const float x = std::ldexp(1.0f + 0.013f * static_cast<float>(i), i % 7 - 20), y = x * 1.01f;
    parts.push_back(of_keys({x, 1, 0.3f, x, x, 2, x, x}, {y, 1, 0.31f, x, x, 2, y, x}));
  }
  RowErrors there, back;
  for (size_t i = 0; i < parts.size(); ++i) {
    there.add(parts[i]);
    back.add(parts[parts.size() - 1 - i]);
  }
  EXPECT_EQ(there.numbers(), back.numbers());
  EXPECT_EQ(there.of(0, CacheSite::Key), back.of(0, CacheSite::Key));
}

TEST(RowErrors, AreTheSameOnceTheyWereKept) {
  RowErrors errors = of_keys({3, 4, 0, 0, 1e-30f, 0, 0, 0}, {3, 4, 1, 0, 2e-30f, 0, 0, 0});
  const RowErrors again = RowErrors::of_numbers(errors.numbers());
  EXPECT_EQ(again.of(0, CacheSite::Key), errors.of(0, CacheSite::Key));
  EXPECT_EQ(again.numbers(), errors.numbers());
}

TEST(RowErrors, AreInfiniteWhereWhatComesBackIsNotFinite) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float broken : {kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    const auto error = of_keys({3, 4, 0, 0, 1, 0, 0, 0}, {3, 4, 1, 0, broken, 0, 0, 0}).of(0, CacheSite::Key);
    EXPECT_EQ(error, std::numeric_limits<double>::infinity());
  }
}

TEST(RowErrors, OfZerosThatStayZerosAreNone) {
  EXPECT_EQ(of_keys(std::vector<float>(8), std::vector<float>(8)).of(0, CacheSite::Key), 0);
}

}  // namespace
}  // namespace kvcal
