// What counts as a right answer.
#include <gtest/gtest.h>

#include "base/error.h"
#include "prompts/expectation.h"
#include "prompts/prompt_set.h"

namespace kvcal {
namespace {

bool met(const char* expect, std::string_view answer) { return Expectation(parse_json(expect)).is_met_by(answer); }

TEST(Expectation, ATextIsContained) {
  EXPECT_TRUE(met(R"("68 ropes")", "Facts: Fay has 68 ropes."));
  EXPECT_FALSE(met(R"("68 ropes")", "Facts: Fay has 68 Ropes."));
  EXPECT_FALSE(met(R"("68")", ""));
}

TEST(Expectation, ANumberIsTheLastOne) {
  EXPECT_TRUE(met("59", "7 * 8 = 56. 56 + 3 = 59."));
  EXPECT_FALSE(met("56", "7 * 8 = 56. 56 + 3 = 59."));
  EXPECT_FALSE(met("59", "It is 590."));
  EXPECT_FALSE(met("59", "No number."));
  EXPECT_TRUE(met("0.1", "about 0.10"));
  EXPECT_TRUE(met("-4", "so x is -4"));
  EXPECT_TRUE(met("4", "10-4")) << "a range or a difference";
  EXPECT_TRUE(met("1234567.5", "In all: 1,234,567.5!"));
  EXPECT_TRUE(met("3", "1, 2, 3")) << "a list";
  EXPECT_TRUE(met("2", "version 1.2.2")) << "a second point begins another number";
  EXPECT_TRUE(met("0", "zero: 0"));
}

TEST(Expectation, APatternMatchesSomewhere) {
  EXPECT_TRUE(met(R"({"regex": "^(?i)yes\\b"})", "Yes, it is."));
  EXPECT_FALSE(met(R"({"regex": "^(?i)yes\\b"})", "Yesterday."));
}

TEST(Expectation, RefusesOtherForms) {
  for (const char* bad : {R"("")", "true", "[1]", "{}", R"({"regex": 1})", R"({"regex": "("})",
                          R"({"regex": "a", "flags": "i"})", R"({"pattern": "a"})"})
    EXPECT_THROW(Expectation{parse_json(bad)}, Error) << bad;
}

TEST(Expectation, IsOfARecordAndNotPartOfItsContent) {
  const PromptSet set = parse_prompts("{\"text\": \"a\", \"expect\": 3}\n{\"text\": \"b\"}\n", "two.jsonl");
  ASSERT_TRUE(set.records[0].expect);
  EXPECT_FALSE(set.records[1].expect);
  EXPECT_EQ(set.records[0].canonical, parse_prompts("{\"text\": \"a\"}", "one.jsonl").records[0].canonical);
  EXPECT_THROW(parse_prompts("{\"text\": \"a\", \"expect\": []}", "bad.jsonl"), Error);
}

TEST(Expectation, SetsMayHaveKeysThatLookLikeIt) {
  EXPECT_EQ(parse_prompts("{\"text\": \"a\", \"expected\": [1]}", "other.jsonl").records.size(), 1U);
}

}  // namespace
}  // namespace kvcal
