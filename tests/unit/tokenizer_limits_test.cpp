// Files of a few kilobytes that would make gigabytes, or hours, of a short text: each ends as one Error, in little
// memory.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <string>

#include "tokenizer/tokenizer.h"

namespace kvcal {
namespace {

Json replace(const std::string& from, const std::string& to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

Json repeated(const char* key, const Json& step, int times) {
  Json steps = Json::array();
  for (int i = 0; i < times; ++i) steps.push_back(step);
  return {{"type", "Sequence"}, {key, steps}};
}

// A model of single letters, and whatever else a case has.
Json file(const char* part, const Json& value) {
  Json j = {{"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {" ", 2}}}, {"merges", Json::array()}}}};
  j[part] = value;
  return j;
}

template <class Work>
std::string error_of(Work&& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

std::string encode_error(const Json& json, const std::string& text) {
  return error_of([&] { Tokenizer(json).encode(text, true); });
}

// Memory of the whole process at its peak; every case here is refused far below it.
void expect_little_memory() {
#ifndef KVCAL_SANITIZED
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  EXPECT_LT(used.ru_maxrss, 600 * 1024) << "KiB";
#endif
}

TEST(TokenizerLimits, TextsThatStepsMakeAreBounded) {
  const Json doubling = repeated("normalizers", replace("a", "aa"), 40);
  EXPECT_EQ(encode_error(file("normalizer", doubling), "a"), "Replace would make a text of more than 4194312 bytes");
  const std::string mega(1 << 20, 'a');
  for (const auto& [name, json] : std::vector<std::pair<std::string, Json>>{
           {"empty pattern", repeated("normalizers", replace("", "aa"), 40)},
           {"long content", replace("a", mega)},
           {"long prefix", repeated("normalizers", {{"type", "Prepend"}, {"prepend", mega}}, 40)},
           {"byte symbols", repeated("normalizers", {{"type", "ByteLevel"}}, 40)},
           {"nested", repeated("normalizers", repeated("normalizers", replace("a", "aa"), 10), 10)}})
    EXPECT_NE(encode_error(file("normalizer", json),
                           "\xC3\xA9"
                           "aaaaaa")
                  .find("would make a text of more than"),
              std::string::npos)
        << name << ": "
        << encode_error(file("normalizer", json),
                        "\xC3\xA9"
                        "aaaaaa");
  const Json symbols = {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"use_regex", false}};
  EXPECT_NE(encode_error(file("pre_tokenizer", repeated("pretokenizers", symbols, 60)), "\xC3\xA9").find("would make"),
            std::string::npos);
  expect_little_memory();
}

TEST(TokenizerLimits, TextsOfAllPartsCountTogether) {
  // Between added tokens are many short texts: each would be allowed what the whole is.
  Json j = file("normalizer", replace("a", std::string(1 << 20, 'b')));
  j["added_tokens"] = Json::array({{{"id", 3}, {"content", "<x>"}, {"special", true}}});
  std::string text;
  for (int i = 0; i < 100; ++i) text += "a<x>";
  EXPECT_NE(encode_error(j, text).find("would make a text of more than"), std::string::npos) << encode_error(j, text);
  expect_little_memory();
}

TEST(TokenizerLimits, DecodedTextsAreBounded) {
  const auto decode_error = [](const Json& json, const std::vector<int32_t>& ids) {
    return error_of([&] { Tokenizer(json).decode(ids, false); });
  };
  EXPECT_EQ(decode_error(file("decoder", repeated("decoders", replace("a", "aa"), 40)), {0}),
            "Replace would make a text of more than 4196352 bytes");
  EXPECT_NE(decode_error(file("decoder", replace("a", std::string(1 << 20, 'b'))), std::vector<int32_t>(100, 0))
                .find("would make"),
            std::string::npos);
  Json j = file("decoder", {{"type", "Fuse"}});
  j["model"]["vocab"][std::string(1 << 20, 'c')] = 3;
  EXPECT_NE(decode_error(j, std::vector<int32_t>(1000, 3)).find("would make"), std::string::npos);
  expect_little_memory();
}

TEST(TokenizerLimits, PassesOverATextAreBounded) {
  const std::string text(1 << 16, 'a');
  for (const auto& [part, steps, step] : std::vector<std::tuple<const char*, const char*, Json>>{
           {"normalizer", "normalizers", replace("b", "b")},
           {"normalizer", "normalizers", {{"type", "Lowercase"}}},
           {"pre_tokenizer", "pretokenizers", {{"type", "WhitespaceSplit"}}}})
    EXPECT_NE(encode_error(file(part, repeated(steps, step, 20'000)), text).find("too many times"), std::string::npos)
        << step;
}

// Where the tokens of a file nearly match at every byte of a text.
TEST(TokenizerLimits, SearchesAreLinearOrRefused) {
  const std::string text(1 << 20, 'a');
  Json j = file("added_tokens", Json::array({{{"id", 3}, {"content", std::string(4000, 'a') + "b"}}}));
  EXPECT_NE(encode_error(j, text).find("too many times"), std::string::npos) << encode_error(j, text);
  Json unigram = {{"type", "Unigram"}, {"vocab", Json::array()}};
  unigram["vocab"].push_back({"a", -1.0});
  unigram["vocab"].push_back({std::string(4000, 'a') + "b", -2.0});
  EXPECT_NE(encode_error({{"model", unigram}}, text).find("too many times"), std::string::npos);
  // Both ends of a run of white space, from every token in it.
  for (const char* side : {"lstrip", "rstrip"}) {
    Json token = {{"id", 3}, {"content", "\n"}, {"special", true}, {side, true}};
    EXPECT_EQ(encode_error(file("added_tokens", Json::array({token})), std::string(1 << 20, '\n')), "no error");
  }
  // memmem, not the product of both lengths.
  const std::string half(1 << 19, 'a');
  EXPECT_EQ(encode_error(file("normalizer", replace(half + "b", "b")), text), "no error");
}

TEST(TokenizerLimits, TemplatesAndAffixesAreBounded) {
  std::string ids = "0", places = R"({"Sequence": {"id": "A"}})";
  for (int i = 1; i < 5000; ++i) ids += ",0";
  for (int i = 1; i < 60; ++i) places += R"(, {"Sequence": {"id": "A"}})";
  const auto with = [](const std::string& single, const std::string& special) {
    return file("post_processor", Json::parse(R"({"type": "TemplateProcessing", "single": [)" + single +
                                              R"(], "special_tokens": {)" + special + "}}"));
  };
  const Json many = with(R"({"SpecialToken": {"id": "x"}})", R"("x": {"ids": [)" + ids + "]}");
  EXPECT_NE(encode_error(many, "a").find("adds 5000 special tokens, at most 1024"), std::string::npos);
  EXPECT_NE(encode_error(with(places, ""), "a").find("has the text 60 times, at most 4"), std::string::npos);
  Json affix = file("normalizer", nullptr);
  affix["model"]["end_of_word_suffix"] = std::string(1 << 20, 'x');
  EXPECT_NE(encode_error(affix, "a").find("1048576 bytes, at most 256"), std::string::npos);
}

// A thousand and more tokens of the longest kind: what they are found with took hundreds of bytes for each of theirs.
TEST(TokenizerLimits, LongAddedTokensTakeLittleMemory) {
  Json tokens = Json::array();
  for (int i = 0; i < 2000; ++i)
    tokens.push_back({{"id", 3 + i}, {"content", std::to_string(10'000 + i) + std::string(4000, 'x')}});
  const Tokenizer t(file("added_tokens", tokens));
  EXPECT_EQ(t.encode("a10007" + std::string(4000, 'x') + "a", false).ids, (std::vector<int32_t>{0, 10, 0}));
  expect_little_memory();
}

}  // namespace
}  // namespace kvcal
