// What tokens of prompts show of other prompts like them. Goldens: tests/reference/make_interval_goldens.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "base/read_file.h"
#include "base/token_kind.h"
#include "evaluate/conclusion.h"
#include "evaluate/looks.h"

namespace kvcal {
namespace {

using Rows = std::vector<std::vector<int32_t>>;  // by prompt

const Json& golden() {
  static const Json json = parse_json(
      read_file(std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/unit/data/intervals.json", size_t{1} << 20));
  return json;
}

std::vector<PromptTokens> prompts_of(const Rows& ids) {
  std::vector<PromptTokens> prompts;
  for (const auto& of_prompt : ids) prompts.push_back({std::to_string(prompts.size()), of_prompt});
  return prompts;
}

/// KLs in thousandths of a nat; above `most` the likeliest token is another.
EvaluatedVariant variant(const std::string& name, const Rows& kls, int32_t most) {
  EvaluatedVariant v{{name, "fp8_e4m3", {}}, {}};
  for (size_t p = 0; p < kls.size(); ++p)
    for (size_t t = 0; t < kls[p].size(); ++t) {
      ComparedToken token{static_cast<int64_t>(p), static_cast<int64_t>(t), false, {}};
      token.difference.kl = kls[p][t];
      token.difference.same_top = kls[p][t] <= most;
      v.tokens.push_back(token);
    }
  return v;
}

struct Given {
  Rows prompts, one, file;
  int32_t most = 35;  // TOP_CHANGES of the script
  Evaluation evaluation() const {
    Evaluation e;
    e.prompts = prompts_of(prompts);
    e.compared.push_back(variant("scale_1.0", one, most));
    e.compared.push_back(variant("file", file, most));
    e.compared.push_back(variant("swapped", file, most));
    e.compared.push_back(variant(kFloor, one, most));
    return e;
  }
};

Given given(const Json& of) { return {of["prompts"].get<Rows>(), of["one"].get<Rows>(), of["file"].get<Rows>()}; }

const Json& named(const std::string& name) {
  return *std::ranges::find(golden(), name, [](const Json& j) { return j["name"].get<std::string>(); });
}

/// `of` is in thousandths. Two sets of 10,000 and 400,000 draws have ends within a few hundredths of the width.
void expect_estimate(const Estimate& estimate, const Json& of, double unit, double within = 0.04) {
  EXPECT_NEAR(estimate.value, of["value"].get<double>() * unit, 1e-9 * unit);
  ASSERT_EQ(estimate.interval.has_value(), of.contains("interval"));
  if (!estimate.interval) return;
  const double low = of["interval"][0], high = of["interval"][1], tolerance = within * (high - low) * unit;
  EXPECT_NEAR(estimate.interval->low, low * unit, tolerance);
  EXPECT_NEAR(estimate.interval->high, high * unit, tolerance);
}

TEST(Conclusion, IsWhatTheReferenceConcludes) {
  for (const Json& of : golden()) {
    SCOPED_TRACE(of["name"].get<std::string>());
    const Conclusion c = conclude(given(of).evaluation());
    EXPECT_EQ(c.groups.n_groups, of["n_groups"].get<int64_t>());
    EXPECT_EQ(c.groups.n_counted, of["n_counted"].get<int64_t>());
    ASSERT_EQ(c.pairs.size(), 1U) << "a control is no candidate";
    expect_estimate(c.of("file").kl, of["kl"], 1000);
    expect_estimate(c.of("file").top1, of["top1"], 1);
    expect_estimate(c.pairs[0].kl, of["pair"], 1000);
    EXPECT_EQ(c.pairs[0].n_worse, of["n_worse"].get<int64_t>());
    EXPECT_EQ(c.pairs[0].n_better, of["n_better"].get<int64_t>());
    Evaluation looked = given(of).evaluation();
    looked.looks = {1, 1, 4, 100};                                             // LOOKS of the script
    expect_estimate(conclude(looked).of("file").kl, of["looked"], 1000, 0.1);  // few draws are so far out
    const auto file = std::ranges::find(c.floor, "file", &FloorEvidence::variant);
    ASSERT_TRUE(file != c.floor.end() && file->times);
    expect_estimate(*file->times, of["times"], 1);
  }
}

/// "file" as if it rounded recurrent states.
Evaluation of_states(const Given& g) {
  Evaluation e = g.evaluation();
  e.compared[1].variant.state.type = StateType::Bf16;
  return e;
}

TEST(Conclusion, SlopesOfStatesAreThoseOfTheReference) {
  for (const Json& of : golden()) {
    SCOPED_TRACE(of["name"].get<std::string>());
    const Conclusion c = conclude(of_states(given(of)));
    EXPECT_FALSE(c.of("scale_1.0").kl_slope);
    const std::optional<Estimate> slope = c.of("file").kl_slope;
    ASSERT_EQ(slope.has_value(), !of["kl_slope"].is_null());
    if (slope) expect_estimate(*slope, of["kl_slope"], 1000);
  }
}

// Prompts of 21 tokens that differ from the first on: exactly 3 a token, beside a level of each prompt's own.
TEST(Conclusion, ASlopeIsWithinPrompts) {
  Given g;
  for (int32_t p = 0; p < 8; ++p) {
    Rows one(3);  // ids, KL of scale 1.0, KL
    for (int32_t t = 0; t < 21 + p; ++t) {
      one[0].push_back(100 * p + t);
      one[1].push_back(0);
      one[2].push_back(1000 - 100 * p + 3 * t);
    }
    g.prompts.push_back(one[0]);
    g.one.push_back(one[1]);
    g.file.push_back(one[2]);
  }
  const Estimate slope = *conclude(of_states(g)).of("file").kl_slope;
  EXPECT_NEAR(slope.value, 3000, 1e-9);
  EXPECT_NEAR(slope.interval->low, 3000, 1e-9) << "longer prompts have less, but of each the KL grows by as much";
  EXPECT_NEAR(slope.interval->high, 3000, 1e-9);
}

// Tokens before the first stored state have the reference's: no KL at all, which is no growth.
TEST(Conclusion, ASlopeBeginsWhereAStoredStateIsRead) {
  for (const int64_t chunk : {1, 7}) {
    Given g;
    for (int32_t p = 0; p < 8; ++p) {
      Rows one(3);
      for (int32_t t = 0; t < 21; ++t) {
        one[0].push_back(100 * p + t);
        one[1].push_back(0);
        one[2].push_back(t < chunk ? 0 : 1000 - 2 * t);
      }
      g.prompts.push_back(one[0]);
      g.one.push_back(one[1]);
      g.file.push_back(one[2]);
    }
    Evaluation e = of_states(g);
    e.compared[1].variant.state.chunk = chunk;
    EXPECT_NEAR(conclude(e).of("file").kl_slope->value, -2000, 1e-9) << chunk;
    for (const int64_t none : {0, 20, 21}) {
      e.compared[1].variant.state.chunk = none;
      EXPECT_FALSE(conclude(e).of("file").kl_slope) << none;
    }
  }
}

TEST(Conclusion, LogitsThatAreNotFiniteHaveNoSlope) {
  Evaluation e = of_states(given(named("independent")));
  ASSERT_TRUE(conclude(e).of("file").kl_slope);
  e.compared[1].tokens[5].difference.finite = false;
  EXPECT_FALSE(conclude(e).of("file").kl_slope);
}

TEST(Conclusion, DoesNotDependOnTheOrderOfPrompts) {
  for (const Json& of : golden()) {
    SCOPED_TRACE(of["name"].get<std::string>());
    Given g = given(of);
    const Conclusion before = conclude(g.evaluation());
    for (Rows* rows : {&g.prompts, &g.one, &g.file}) std::ranges::reverse(*rows);
    const Conclusion after = conclude(g.evaluation());
    EXPECT_EQ(before.groups.n_counted, after.groups.n_counted);
    ASSERT_EQ(before.pairs[0].kl.interval.has_value(), after.pairs[0].kl.interval.has_value());
    if (!before.pairs[0].kl.interval) continue;
    EXPECT_EQ(before.pairs[0].kl.interval->low, after.pairs[0].kl.interval->low);
    EXPECT_EQ(before.of("file").top1.interval->high, after.of("file").top1.interval->high);
  }
}

TEST(Conclusion, OfEqualVariantsIsThatTheyAreTheSame) {
  Given g = given(named("independent"));
  g.file = g.one;
  const PairEvidence pair = conclude(g.evaluation()).pairs[0];
  EXPECT_TRUE(pair.same);
  EXPECT_EQ(pair.n_worse + pair.n_better, 0);
  EXPECT_EQ(pair.kl.interval->high, 0);
  EXPECT_EQ(pair.top1.value, 0);
  EXPECT_FALSE(pair.top1.interval) << "of other prompts some may change";
}

TEST(Conclusion, AllTokensOfFewPromptsThatAgreeShowNoShareOfOne) {
  Given g = given(named("one token each"));
  g.most = 1000;
  const Estimate top1 = conclude(g.evaluation()).of("file").top1;
  EXPECT_EQ(top1.value, 1);
  EXPECT_NEAR(top1.interval->low, 7 / (7 + 3.8415), 1e-4);
}

TEST(Conclusion, MoreLooksNeedMoreGroups) {
  EXPECT_EQ(fewest_groups(), 6);   // 2 / 2^6 is below 1/20
  EXPECT_EQ(fewest_groups(2), 8);  // 2 / 2^8 below 1/120
  EXPECT_EQ(fewest_groups(3), 9);  // 2 / 2^9 below 1/180
  EXPECT_EQ(fewest_groups(4), 9);
  EXPECT_EQ(fewest_groups(5), 10);
}

TEST(Conclusion, WilsonsIntervalOfSeveralLooksIsWider) {
  Given g = given(named("one system prompt"));
  g.most = 1000;
  Evaluation e = g.evaluation();
  e.looks = {1, 1, 4, 100};
  const Conclusion c = conclude(e);
  const auto n = static_cast<double>(c.groups.n_counted);
  EXPECT_NEAR(c.of("file").top1.interval->low, n / (n + 8.2097), 1e-4) << "its z is 2.8653";
}

TEST(Conclusion, AFloorOfZeroIsNoMeasure) {
  Evaluation e = given(named("independent")).evaluation();
  const double before = conclude(e).floor[0].times->value;
  for (ComparedToken& t : e.compared[3].tokens)
    if (t.prompt == 0) t.difference.kl = 0;
  EXPECT_GT(conclude(e).floor[0].times->value, before) << "a prompt whose floor is 0 counts";
  for (ComparedToken& t : e.compared[3].tokens) t.difference.kl = 0;
  EXPECT_FALSE(conclude(e).floor[0].times);
  EXPECT_GT(conclude(e).floor[0].difference.interval->low, 0);
  e.compared[3].tokens[0].difference.finite = false;
  EXPECT_TRUE(conclude(e).floor.empty());
}

TEST(Conclusion, FloorsOfZeroAreDrawnLikeOthers) {
  // 60 like prompts, the floor of every other 0: 60 over how many of a draw have one, of which 97.5 % are 22 to 38.
  GroupSums kl{std::vector<GroupSum>(60, {1, 1}), {}}, floor = kl;
  for (size_t i = 0; i < 60; i += 2) floor.groups[i].sum = 0;
  const Estimate times = quotient_of(kl, floor);
  EXPECT_EQ(times.value, 2);
  EXPECT_NEAR(times.interval->low, 60 / 38.0, 0.05);
  EXPECT_NEAR(times.interval->high, 60 / 22.0, 0.15);
  for (size_t i = 2; i < 60; ++i) floor.groups[i].sum = 0;
  EXPECT_FALSE(quotient_of(kl, floor).interval) << "every third draw has no floor";
}

TEST(Conclusion, TokensWithoutFiniteLogitsDisagreeAndHaveNoKl) {
  Evaluation e = given(named("independent")).evaluation();
  for (size_t i = 0; i < 2; ++i) {  // all of the first prompt
    e.compared[1].tokens[i].difference = {};
    e.compared[1].tokens[i].difference.finite = false;
    e.compared[1].tokens[i].difference.kl = std::numeric_limits<double>::quiet_NaN();
  }
  const Conclusion c = conclude(e);
  EXPECT_EQ(c.of("file").n_not_finite, 2);
  EXPECT_GT(c.of("file").kl.value, 0);
  EXPECT_LT(c.of("file").top1.value, conclude(given(named("independent")).evaluation()).of("file").top1.value);
}

TEST(Conclusion, OfPicturesIsNotThatPromptsRepeatEachOther) {
  Evaluation e = given(named("all the same")).evaluation();
  for (PromptTokens& p : e.prompts) {
    p.encoder = std::make_shared<EncoderRows>();
    p.kinds.assign(5, token_kind(TokenRole::Text));
    p.kinds[3] = token_kind(TokenRole::Image);
  }
  const PromptGroups groups = group_prompts(e.prompts);
  EXPECT_EQ(groups.common, 3);
  EXPECT_EQ(groups.n_counted, 3 + 8 * 2);
  EXPECT_EQ(groups.n_groups, 8);
}

TEST(Conclusion, OfTopTokensIsWhichAreLostAndGained) {
  Evaluation e = given(named("independent")).evaluation();
  size_t n = 0;
  for (size_t i = 0; i < e.compared[0].tokens.size(); ++i, ++n) {
    e.compared[0].tokens[i].difference.same_top = i % 4 != 0;
    e.compared[1].tokens[i].difference.same_top = i % 4 != 1 && i % 4 != 2;
  }
  const PairEvidence pair = conclude(e).pairs[0];
  EXPECT_EQ(pair.n_gained, static_cast<int64_t>((n + 3) / 4));
  EXPECT_EQ(pair.n_lost, static_cast<int64_t>((n + 2) / 4 + (n + 1) / 4));
  EXPECT_NEAR(pair.top1.value, static_cast<double>(pair.n_gained - pair.n_lost) / static_cast<double>(n), 1e-12);
  EXPECT_TRUE(pair.top1.interval);
}

TEST(Conclusion, McNemarsTestIsExact) {
  EXPECT_EQ(mcnemar(0, 0).p, 1);
  EXPECT_EQ(mcnemar(3, 3).p, 1);
  EXPECT_NEAR(mcnemar(1, 9).p, 22 / 1024.0, 1e-12);    // 2 (1 + 10) / 2^10
  EXPECT_NEAR(mcnemar(12, 5).p, 0.143463, 1e-6);       // 18804 / 2^17 in exact fractions
  EXPECT_NEAR(mcnemar(2000, 2100).p, 0.122065, 1e-6);  // likewise
}

TEST(Looks, DoubleAndEndWithAllPrompts) {
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(looks_at(3), Sizes{3});
  EXPECT_EQ(looks_at(72), Sizes{72});
  EXPECT_EQ(looks_at(73), (Sizes{48, 73}));
  EXPECT_EQ(looks_at(400), (Sizes{48, 96, 192, 400}));
  std::vector<size_t> order = drawn_order(400);
  EXPECT_EQ(order, drawn_order(400));
  EXPECT_FALSE(std::ranges::is_sorted(order));
  std::ranges::sort(order);
  for (size_t i = 0; i < 400; ++i) EXPECT_EQ(order[i], i);
}

TEST(Conclusion, CountsRightAnswersByGroup) {
  Evaluation e = given(named("every prompt twice")).evaluation();
  e.answers.assign(5, Answers(14));
  EXPECT_FALSE(conclude(e).of("file").correct) << "no prompt says what to expect";
  for (size_t i = 0; i < 14; ++i)
    for (size_t v = 0; v < 5; ++v) e.answers[v][i].correct = v == 1 ? i % 7 == 1 : v != 2 || i % 7 != 0;
  const Conclusion c = conclude(e);
  EXPECT_EQ(c.of("file").changes->n_lost, 1);
  EXPECT_EQ(c.pairs[0].changes->n_gained, 5) << "as many groups as are right now and were wrong at 1.0";
  EXPECT_EQ(c.pairs[0].changes->n_lost, 0);
  EXPECT_NEAR(c.pairs[0].changes->p, 2 / 32.0, 1e-12);
  ASSERT_TRUE(c.of("file").correct->interval);
  EXPECT_NEAR(c.of("file").correct->value, 6.0 / 7, 1e-12);
  EXPECT_LT(c.of("file").correct->interval->low, 0.6) << "seven prompts, not fourteen";
}

}  // namespace
}  // namespace kvcal
