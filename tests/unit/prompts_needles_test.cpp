// Prompts with a needle: their lengths, where the needle lies, and what they may not depend on.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "harness/message_of.h"
#include "prompts/chat_template.h"
#include "prompts/haystack.h"
#include "prompts/needles.h"
#include "tokenizer/tokenizer.h"

namespace kvcal {
namespace {

const std::filesystem::path kModel = std::filesystem::path(KVCAL_SOURCE_DIR) / "datasets/demo/natural";

const Tokenizer& tokenizer() {
  static const Tokenizer loaded = Tokenizer::load(kModel);
  return loaded;
}

const ChatTemplate& chat_template() {
  static const ChatTemplate loaded = *ChatTemplate::load(kModel);
  return loaded;
}

PromptSet texts() { return load_prompts({std::filesystem::path(KVCAL_SOURCE_DIR) / "datasets/demo/prompts.jsonl"}); }

PromptSet text(const std::string& words) { return parse_prompts(Json{{"text", words}}.dump(), "text.jsonl"); }

PromptSet made(const PromptSet& texts, const NeedleOptions& needles, bool chat = true) {
  return make_needle_prompts(texts, needles, tokenizer(), chat ? &chat_template() : nullptr, {}).set;
}

std::string content(const PromptRecord& r) {
  return r.kind == PromptKind::Text ? r.text : r.messages[0]["content"].get<std::string>();
}

/// The number that the prompt expects, as its needle has it.
std::string number_in(const PromptRecord& r) {
  const std::string all = content(r), before = "The pass number is ";
  return all.substr(all.find(before) + before.size(), 6);
}

TEST(Needles, HaveTheLengthThatIsAskedForToAWord) {
  for (const bool chat : {true, false}) {
    const PromptSet set = made(texts(), {.lengths = {200, 1000}, .depths = {0, 30, 100}}, chat);
    ASSERT_EQ(set.records.size(), 6U);
    const TokenizedSet tokenized = tokenize_prompts(set, &tokenizer(), &chat_template());
    for (size_t i = 0; i < 6; ++i) {
      const size_t n = tokenized.prompts[i].input_ids.size(), wanted = i < 3 ? 200 : 1000;
      EXPECT_LE(n, wanted) << set.records[i].id;
      EXPECT_GT(n, wanted - 4) << set.records[i].id;
      EXPECT_EQ(set.records[i].kind, chat ? PromptKind::Chat : PromptKind::Text);
    }
  }
}

TEST(Needles, LieAtTheirDepth) {
  const PromptSet set = made(texts(), {.lengths = {2000}, .depths = {0, 25, 50, 90, 100}});
  const std::vector<double> depths = {0, .25, .5, .9, 1};
  for (size_t i = 0; i < depths.size(); ++i) {
    const std::string all = content(set.records[i]);
    const size_t needle = all.find("The pass number is "), end = all.find(" is the pass number.") + 20;
    const size_t question = all.rfind("\n\nWhat is the pass number");
    ASSERT_LT(end, all.size());
    EXPECT_NEAR(static_cast<double>(needle) / static_cast<double>(question - (end - needle)), depths[i], 0.06);
    if (i == 0) {
      EXPECT_EQ(needle, 0U);
    } else {
      EXPECT_TRUE(all[needle - 1] == ' ' || all[needle - 1] == '\n');
    }
    if (i == 4) {
      EXPECT_EQ(end, question);
    }
  }
}

TEST(Needles, AreWhatTheAnswerIsExpectedToHave) {
  for (const PromptRecord& r : made(texts(), {.lengths = {300}}).records) {
    ASSERT_TRUE(r.expect);
    EXPECT_TRUE(r.expect->is_met_by("It is " + number_in(r) + "."));
    EXPECT_FALSE(r.expect->is_met_by("It is 1."));
  }
}

TEST(Needles, SayWhatTheyAreInTagsAndIds) {
  const PromptSet set = made(texts(), {.lengths = {400, 200}, .depths = {50, 0}});
  EXPECT_EQ(set.records[0].id, "needle-200-0");
  EXPECT_EQ(set.records[3].id, "needle-400-50");
  const std::vector<std::string> tags = {"needle", "needle 400", "depth 50", "needle 400 depth 50"};
  EXPECT_EQ(set.records[3].tags, tags);
  EXPECT_EQ(needle_tag(400, 50), "needle 400 depth 50");
}

TEST(Needles, DoNotDependOnTheOrderOfRecords) {
  PromptSet forward = texts(), backward = forward;
  std::ranges::reverse(backward.records);
  const NeedleOptions needles{.lengths = {700}};
  const PromptSet a = made(forward, needles), b = made(backward, needles);
  for (size_t i = 0; i < a.records.size(); ++i) EXPECT_EQ(a.records[i].canonical, b.records[i].canonical);
}

TEST(Needles, HaveANumberThatTheTextHasNot) {
  const NeedleOptions needles{.lengths = {300}, .depths = {0}};
  const std::string usual = number_in(made(texts(), needles).records[0]);
  EXPECT_EQ(usual, number_in(made(text("Some other text."), needles).records[0]));
  EXPECT_NE(usual, number_in(made(text("It was 1" + usual + "1."), needles).records[0]));
}

TEST(Needles, RepeatTextsThatAreTooShortAndSaySo) {
  const NeedleOptions needles{.lengths = {100, 300}, .depths = {100}};
  const NeedlePrompts prompts =
      make_needle_prompts(text("One moon. Two suns."), needles, tokenizer(), &chat_template(), {});
  EXPECT_EQ(prompts.n_repeating, 1U);
  EXPECT_EQ(repetition_notice(prompts), "1 of 2 needle prompts repeat the texts, which are too short for them");
  EXPECT_TRUE(content(prompts.set.records[1]).starts_with("One moon. Two suns.\n\nOne moon. Two suns.\n\n"));
  EXPECT_EQ(repetition_notice(make_needle_prompts(texts(), needles, tokenizer(), nullptr, {})), "");
}

TEST(Needles, TakeTheTextOfChatsWhereverItIs) {
  const PromptSet set = parse_prompts(
      R"([{"id": "b", "messages": [{"role": "user", "content": [{"type": "text", "text": "moon"}, {"type": "image"}]},
                                   {"role": "assistant", "content": " star "}, {"role": "user"}]},
          {"id": "a", "prompt": "sun ", "completion": "rain"}, {"id": "c", "input_ids": [1, 2]}])",
      "some.json");
  EXPECT_EQ(joined_text(set, 1000), "sun rain\n\nmoon\nstar");
  EXPECT_EQ(joined_text(set, 9), "sun rain\n");
}

TEST(Needles, RefuseWhatCannotBe) {
  const auto message = [](const NeedleOptions& needles, const PromptSet& set, int64_t max_length = 0) {
    TokenizeOptions options;
    options.max_length = max_length;
    return message_of([&] { make_needle_prompts(set, needles, tokenizer(), &chat_template(), options); });
  };
  EXPECT_EQ(message({.lengths = {}}, texts()), "needles: no length");
  EXPECT_EQ(message({.lengths = {300, 200, 300}}, texts()), "needles: length 300 twice");
  EXPECT_EQ(message({.lengths = {300}, .depths = {101}}, texts()),
            "needles: depth 101, expected a percentage, 0 to 100");
  EXPECT_EQ(message({.lengths = {0}}, texts()), "needles: length 0, expected 1 to 16777216 tokens");
  std::vector<int64_t> many(201);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<int64_t>(1000 + i);
  EXPECT_EQ(message({.lengths = many}, texts()), "needles: 1005 prompts, one for each length and depth; at most 1000");
  EXPECT_EQ(message({.lengths = {300, 4096}}, texts(), 2048),
            "needle prompts of 4096 tokens, but the model's context has 2048");
  EXPECT_TRUE(message({.lengths = {20}}, texts())
                  .starts_with("needle prompt of 20 tokens: there is no room: needle, question and chat template"));
  EXPECT_EQ(message({.lengths = {300}}, parse_prompts(R"({"input_ids": [1]})", "ids.jsonl")),
            "needles: no text in the prompts");
}

std::vector<std::string> cuts_of(const std::string& text) {
  const Haystack haystack(text, 0);
  std::vector<std::string> cuts;
  for (size_t i = 0; i < haystack.n_cuts(); ++i) cuts.emplace_back(haystack.until(i));
  return cuts;
}

TEST(Haystack, IsCutBehindWords) {
  EXPECT_EQ(cuts_of("a bc  d"), (std::vector<std::string>{"a", "a bc", "a bc  d"}));
  EXPECT_EQ(cuts_of("月は e"), (std::vector<std::string>{"月", "月は", "月は e"})) << "characters are words";
  const std::string word(100, 'x');
  EXPECT_EQ(cuts_of(word).front(), word.substr(0, 64));
}

TEST(Haystack, IsTakenApartBetweenSentencesOrLines) {
  const std::string text = "One two three. Four five six seven. Eight\nnine ten eleven twelve. Thirteen";
  const Haystack haystack(text, 0);
  const size_t all = haystack.n_cuts() - 1;
  EXPECT_EQ(haystack.place(all, 0), 0U);
  EXPECT_EQ(haystack.place(all, 100), text.size());
  EXPECT_EQ(haystack.place(all, 20), text.find(" Four"));
  EXPECT_EQ(haystack.place(all, 47), text.find(" Eight"));
  EXPECT_EQ(haystack.place(all, 55), text.find("\nnine"));
  EXPECT_EQ(haystack.place(all, 70), text.find(" eleven")) << "no sentence ends near";
}

}  // namespace
}  // namespace kvcal
