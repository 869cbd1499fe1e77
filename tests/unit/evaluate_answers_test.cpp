// Answers compared, and those that repeat themselves.
#include <gtest/gtest.h>

#include "evaluate/answers.h"

namespace kvcal {
namespace {

std::vector<int32_t> repeated(std::vector<int32_t> before, const std::vector<int32_t>& period, int times) {
  for (int i = 0; i < times; ++i) before.insert(before.end(), period.begin(), period.end());
  return before;
}

TEST(Loops, AreFoundWithTheirPeriodAndBeginning) {
  EXPECT_EQ(find_loop(repeated({1, 2, 3}, {7, 8, 9, 10}, 20)), (Loop{4, 20, 3}));
  EXPECT_EQ(find_loop(repeated({1, 2, 3}, {5}, 60)), (Loop{1, 60, 3}));
  EXPECT_EQ(find_loop(repeated({}, {4, 4, 6}, 16)), (Loop{3, 16, 0}));
}

TEST(Loops, MayEndInTheMiddleOfARepetition) {
  std::vector<int32_t> tokens = repeated({1, 2}, {7, 8, 9}, 20);
  tokens.insert(tokens.end(), {7, 8});
  EXPECT_EQ(find_loop(tokens), (Loop{3, 20, 2}));
}

TEST(Loops, BeginWhereTheRepetitionDoes) {
  // The token before the first repetition is already that of its end.
  EXPECT_EQ(find_loop(repeated({1, 9}, {7, 8, 9}, 20)), (Loop{3, 20, 1}));
}

TEST(Loops, NeedThreeRepetitionsAndSomeLength) {
  std::vector<int32_t> once(100);
  for (size_t i = 0; i < once.size(); ++i) once[i] = static_cast<int32_t>(i);
  EXPECT_FALSE(find_loop(once));
  EXPECT_FALSE(find_loop(repeated({}, once, 2)));
  EXPECT_TRUE(find_loop(repeated({}, once, 3)));
  EXPECT_FALSE(find_loop(repeated(once, {3, 4}, 23))) << "46 tokens";
  EXPECT_TRUE(find_loop(repeated(once, {3, 4}, 24)));
  EXPECT_FALSE(find_loop({}));
}

TEST(Loops, ThatEndedAreNone) {
  std::vector<int32_t> tokens = repeated({1}, {7, 8, 9}, 30);
  tokens.push_back(2);
  EXPECT_FALSE(find_loop(tokens));
}

ModelAnswer answer(std::vector<int32_t> tokens, bool ended = true, std::optional<bool> correct = {}) {
  return {std::move(tokens), ended, "", {}, correct};
}

TEST(AnswerFigures, CountWhatDiffers) {
  const Answers reference = {answer({1, 2, 3, 9}, true, true), answer({4, 5, 9}, true, true), answer({6, 9}),
                             answer({7, 7, 7}, false)};
  const Answers variant = {answer({1, 2, 8, 9}, true, false), answer({4, 5, 9}, true, true), answer({9}),
                           answer({7, 7, 7}, false)};
  const AnswerFigures f = figures_of(reference, variant);
  EXPECT_EQ(f.n_answers, 4);
  EXPECT_EQ(f.n_equal, 2);
  EXPECT_EQ(f.agreement, (2 + 3 + 0 + 3) / 12.0);
  EXPECT_EQ(f.first_divergence, 0);
  EXPECT_EQ(f.first_divergence_prompt, 2);
  EXPECT_EQ(f.n_empty, 1);
  EXPECT_EQ(f.n_endless, 1);
  EXPECT_EQ(f.n_expected, 2);
  EXPECT_EQ(f.n_correct, 1);
}

TEST(RightAnswers, AreCountedByTag) {
  const Answers answers = {answer({1}, true, true), answer({2}, true, false), answer({3}), answer({4}, true, true)};
  std::vector<PromptTokens> prompts(4);
  prompts[0].tags = {"a", "b"};
  prompts[1].tags = {"a"};
  prompts[2].tags = {"c"};
  const auto right = right_by_tag(answers, prompts);
  ASSERT_EQ(right.size(), 3U);
  EXPECT_EQ(right.at("a").n_expected, 2);
  EXPECT_EQ(right.at("a").n_correct, 1);
  EXPECT_EQ(right.at("b").n_correct, 1);
  EXPECT_EQ(right.at("c").n_expected, 0);
}

TEST(AnswerFigures, OfTheReferenceItselfNothingDiffers) {
  const Answers reference = {answer({1, 2}), answer({3})};
  const AnswerFigures f = figures_of(reference, reference);
  EXPECT_EQ(f.n_equal, 2);
  EXPECT_EQ(f.agreement, 1);
  EXPECT_FALSE(f.first_divergence);
}

TEST(AnswerFigures, AnAnswerThatIsCutShortDiffersAtItsEnd) {
  EXPECT_EQ(first_other(answer({1, 2, 3}), answer({1, 2})), 2);
  EXPECT_EQ(figures_of({answer({1, 2, 3})}, {answer({1, 2})}).first_divergence, 2);
}

}  // namespace
}  // namespace kvcal
