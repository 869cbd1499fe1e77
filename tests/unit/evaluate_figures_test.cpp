// What is said of many tokens.
#include <gtest/gtest.h>

#include "evaluate/figures.h"

namespace kvcal {
namespace {

ComparedToken token(int64_t prompt, int64_t position, double kl, bool same_top = true) {
  ComparedToken t{prompt, position, true, {}};
  t.difference.kl = kl;
  t.difference.same_top = same_top;
  t.difference.nll_reference = 1;
  t.difference.nll_variant = 1 + kl;
  return t;
}

/// One prompt, whose token at position i has the divergence i + 1.
std::vector<ComparedToken> ascending(int64_t n) {
  std::vector<ComparedToken> tokens;
  for (int64_t i = 0; i < n; ++i) tokens.push_back(token(0, i, static_cast<double>(i + 1)));
  return tokens;
}

TEST(Figures, AreOfTheTokensInOrder) {
  const PredictionFigures f = figures_of(ascending(200));
  EXPECT_EQ(f.n_tokens, 200);
  EXPECT_EQ(f.kl.mean, 100.5);
  EXPECT_EQ(f.kl.median, 100);
  EXPECT_EQ(f.kl.p99, 198);
  EXPECT_EQ(f.kl.worst, 200);
  EXPECT_EQ(f.kl.worst_position, 199);
  EXPECT_EQ(f.nll_reference, 1);
  EXPECT_EQ(f.nll, 101.5);
  EXPECT_EQ(f.top1, 1);
}

TEST(Figures, OfOneTokenAreItsOwn) {
  const PredictionFigures f = figures_of(ascending(1));
  EXPECT_EQ(f.kl.median, 1);
  EXPECT_EQ(f.kl.p99, 1);
}

TEST(Figures, TheFirstOfEquallyBadTokensIsTheWorst) {
  const PredictionFigures f = figures_of(std::vector{token(0, 4, 1), token(1, 2, 3), token(2, 0, 3)});
  EXPECT_EQ(f.kl.worst_prompt, 1);
  EXPECT_EQ(f.kl.worst_position, 2);
}

TEST(Figures, PredictNothingAfterTheLastToken) {
  std::vector<ComparedToken> tokens = ascending(3);
  tokens[2].has_next = false;
  tokens[2].difference.nll_reference = tokens[2].difference.nll_variant = 0;
  const PredictionFigures f = figures_of(tokens);
  EXPECT_EQ(f.n_predicted, 2);
  EXPECT_EQ(f.nll, 2.5);
}

TEST(Figures, TokensWithoutFiniteLogitsDisagreeAndCountNowhereElse) {
  std::vector<ComparedToken> tokens = ascending(4);
  tokens[3].difference.finite = false;
  const PredictionFigures f = figures_of(tokens);
  EXPECT_EQ(f.n_tokens, 4);
  EXPECT_EQ(f.n_not_finite, 1);
  EXPECT_EQ(f.kl.mean, 2);
  EXPECT_EQ(f.top1, 0.75);
  for (ComparedToken& t : tokens) t.difference.finite = false;
  EXPECT_EQ(figures_of(tokens).n_not_finite, 4);
  EXPECT_EQ(figures_of(tokens).top1, 0);
  ASSERT_TRUE(first_difference(tokens));
}

TEST(Figures, BucketsOfPositionsDouble) {
  const std::vector<PredictionFigures> parts = figures_by_position(ascending(9));
  std::vector<int64_t> sizes;
  for (const PredictionFigures& part : parts) sizes.push_back(part.n_tokens);
  EXPECT_EQ(sizes, (std::vector<int64_t>{1, 1, 2, 4, 1}));
  EXPECT_EQ(parts[3].kl.worst, 8);
}

TEST(Figures, ATokenCountsForEachOfItsTags) {
  const auto tags_of = [](const ComparedToken& t) {
    return t.prompt == 0 ? std::vector<std::string>{"a", "b"} : std::vector<std::string>{"b"};
  };
  const auto by_tag = figures_by(std::vector{token(0, 0, 1), token(1, 0, 3), token(1, 1, 5)}, tags_of);
  ASSERT_EQ(by_tag.size(), 2U);
  EXPECT_EQ(by_tag.at("a").kl.mean, 1);
  EXPECT_EQ(by_tag.at("b").kl.mean, 3);
}

TEST(Figures, TheSoonestDifferenceOfAllPromptsIsTheFirst) {
  EXPECT_FALSE(first_difference(ascending(5)));
  const auto first = first_difference(
      std::vector{token(0, 0, 0), token(0, 7, 1, false), token(1, 2, 1, false), token(2, 2, 1, false)});
  ASSERT_TRUE(first);
  EXPECT_EQ(first->prompt, 1);
  EXPECT_EQ(first->position, 2);
}

}  // namespace
}  // namespace kvcal
