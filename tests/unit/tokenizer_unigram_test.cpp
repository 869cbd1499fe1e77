// Unigram models and their character maps: sums worked out by hand, and files that are refused.
#include <gtest/gtest.h>

#include <chrono>

#include "tokenizer/charsmap.h"
#include "tokenizer/tokenizer.h"

namespace kvcal {
namespace {

using Ids = std::vector<int32_t>;

Json unigram(const char* vocab) {
  return {{"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", Json::parse(vocab)}}}};
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    return e.what();
  }
  return "accepted";
}

TEST(Unigram, OfEqualSumsTheFirstFoundCounts) {
  // a + b and ab both have -3, and ab begins further left.
  const Tokenizer t(unigram(R"([["<unk>", 0], ["a", -1], ["b", -2], ["ab", -3], ["ba", -3]])"));
  EXPECT_EQ(t.encode("ab", false).ids, (Ids{3}));
  EXPECT_EQ(t.encode("aba", false).ids, (Ids{1, 4}));  // ab a has the same -4, but a ba was found first
}

TEST(Unigram, AnUnknownCharacterCostsTenMoreThanTheWorstPiece) {
  // "a" is no piece: ab c has -12 + c, the unknown a and bc have -22 - 1.
  EXPECT_EQ(Tokenizer(unigram(R"([["<unk>", 0], ["ab", -12], ["c", -10.9], ["bc", -1]])")).encode("abc", false).ids,
            (Ids{1, 2}));
  EXPECT_EQ(Tokenizer(unigram(R"([["<unk>", 0], ["ab", -12], ["c", -11.1], ["bc", -1]])")).encode("abc", false).ids,
            (Ids{0, 3}));
}

// The reference does not round decimals to the nearest number; by that last bit, aaa aa aa and aa aaa aa do not tie.
// The ids are the reference's; with scores that are rounded as usual they would be 2 2 3 and 2 3 3 3.
TEST(Unigram, ScoresAreReadToTheLastBitAsTheReferenceReadsThem) {
  const Tokenizer sevens(unigram(R"([["<unk>", 0.0], ["a", -9.053105354309082], ["aa", -2.0588152408599854],
                                     ["aaa", -3.7222204208374023]])"));
  EXPECT_EQ(sevens.encode("aaaaaaa", false).ids, (Ids{2, 3, 2}));
  const Tokenizer elevens(unigram(R"([["<unk>", 0.0], ["a", -8.207046508789062], ["aa", -7.3166422843933105],
                                      ["aaa", -10.626927375793457]])"));
  EXPECT_EQ(elevens.encode("aaaaaaaaaaa", false).ids, (Ids{3, 3, 2, 3}));
}

TEST(Unigram, NeighboringUnknownCharactersAreOneOrTheirBytes) {
  Json j = unigram(R"([["<unk>", 0], ["a", -1], ["<0xC3>", 0], ["<0xA9>", 0]])");
  EXPECT_EQ(Tokenizer(j).encode("aééa", false).ids, (Ids{1, 0, 1}));
  j["model"]["byte_fallback"] = true;
  EXPECT_EQ(Tokenizer(j).encode("aééa", false).ids, (Ids{1, 2, 3, 2, 3, 1}));
  EXPECT_EQ(Tokenizer(j).encode("aéüa", false).ids, (Ids{1, 0, 1})) << "<0xBC> is missing: no bytes at all";
}

TEST(Unigram, OfEqualPiecesTheLastCounts) {
  const Tokenizer t(unigram(R"([["<unk>", 0], ["a", -1], ["a", -2]])"));
  EXPECT_EQ(t.encode("a", false).ids, (Ids{2}));
  EXPECT_EQ(t.decode({1, 2}, false), "a a");
}

TEST(Unigram, FilesWithoutTypeAreToldByTheirVocabulary) {
  Json j = unigram(R"([["<unk>", 0], ["a", -1]])");
  j["model"].erase("type");
  EXPECT_EQ(Tokenizer(j).encode("a", false).ids, (Ids{1}));
}

TEST(Unigram, UnknownCharactersWithoutUnknownPieceAreAnError) {
  Json j = unigram(R"([["a", -1], ["a<", -1]])");
  j["model"]["unk_id"] = nullptr;
  const Tokenizer t(j);
  EXPECT_EQ(t.encode("aa<", false).ids, (Ids{0, 1})) << "< is no piece, but none is better than a<";
  EXPECT_EQ(message_of([&] { t.encode("ab", false); }), "text has 'b', which is not a piece, and there is no unk_id");
}

// A diaeresis becomes a space and a mark, which begins the first word then; the ids are the reference's.
TEST(Unigram, WhatBecomesOfTheFirstCharacterBeginsTheFirstWord) {
  Json j = unigram(R"([["<unk>", 0], ["▁", -1], ["x", -1], ["y", -1], ["\u0308", -1]])");
  j["pre_tokenizer"] = Json::parse(R"({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
      {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": true}]})");
  for (const char* form : {"NFKC", "NFKD"}) {
    j["normalizer"] = {{"type", form}};
    EXPECT_EQ(Tokenizer(j).encode("\u00a8x y", false).ids, (Ids{1, 4, 2, 3})) << form;
  }
}

TEST(Unigram, BrokenVocabulariesAreRefused) {
  const std::pair<const char*, const char*> broken[] = {
      {R"({"a": 1})", "model: vocab is missing or no array"},
      {R"([["<unk>", 0], ["a"]])", R"(model: vocab entry 1 is '["a"]', expected [piece, score])"},
      {R"([["<unk>", 0], ["a", 1, 2]])", "vocab entry 1 is"},
      {R"([["<unk>", 0], [1, "a"]])", "vocab entry 1 is"},
      {R"([["<unk>", null]])", "vocab entry 0 is"},
      {R"([["<unk>", "NaN"]])", "vocab entry 0 is"},
      {"[]", "model: unk_id is 0, expected an id of the 0 pieces of the vocabulary"},
  };
  for (const auto& [vocab, expected] : broken) {
    const std::string message = message_of([&, v = vocab] { Tokenizer{unigram(v)}; });
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  }
  for (const double score : {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
    Json j = unigram(R"([["<unk>", 0], ["a", -1]])");
    j["model"]["vocab"][1][1] = score;
    EXPECT_EQ(message_of([&] { Tokenizer{j}; }), R"(model: vocab entry 1 is '["a",null]', expected [piece, score])");
  }
  for (const int id : {-1, 2}) {
    Json j = unigram(R"([["<unk>", 0], ["a", -1]])");
    j["model"]["unk_id"] = id;
    EXPECT_NE(message_of([&] { Tokenizer{j}; }).find("expected an id of the 2 pieces"), std::string::npos);
  }
}

TEST(Unigram, PiecesHaveLimits) {
  Json j = unigram(R"([["<unk>", 0]])");
  Json& vocab = j["model"]["vocab"];
  vocab.push_back(Json::array({std::string(4096, 'a'), -1}));
  EXPECT_EQ(Tokenizer(j).encode(std::string(4096, 'a'), false).ids, (Ids{1}));
  vocab.push_back(Json::array({std::string(4097, 'a'), -1}));
  EXPECT_NE(message_of([&] { Tokenizer{j}; }).find("has 4097 bytes, at most 4096 are accepted"), std::string::npos);
  vocab.erase(2);
  while (vocab.size() <= (size_t{16} << 20) / 4096 + 10)
    vocab.push_back(Json::array({std::to_string(vocab.size()) + std::string(4090, 'b'), -1}));
  EXPECT_NE(message_of([&] { Tokenizer{j}; }).find("bytes together, at most 16777216 are accepted"), std::string::npos);
}

TEST(Unigram, LongTextIsNotQuadratic) {
  const Tokenizer t(unigram(R"([["<unk>", 0], ["a", -1], ["aa", -1.5], ["aaaaaaaa", -2]])"));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(t.encode(std::string(2'000'000, 'a'), false).ids.size(), 250'000u);
  EXPECT_EQ(t.encode(std::string(2'000'000, 'x'), false).ids, (Ids{0}));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));  // quadratic takes hours
}

TEST(Unigram, TheLargestAndTheSmallestScoresAreRead) {
  const Tokenizer t(unigram(R"([["<unk>", 0], ["a", 1.7976931348623157e308], ["b", 5e-324], ["ab", 1e308]])"));
  EXPECT_EQ(t.encode("abb", false).ids, (Ids{1, 2, 2}));
}

std::string base64(const std::string& bytes) {
  const char* const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) text += i + k > bytes.size() ? '=' : letters[bits >> (18 - 6 * k) & 63];
  }
  return text;
}

// One rule, a -> bc: the root's state is 0, the unit of 'a' leads on to state 'b', where the value is.
struct SmallMap {
  std::vector<uint32_t> units = std::vector<uint32_t>(256);
  std::string texts = std::string("x\0bc\0", 5);

  SmallMap() {
    units['a'] = uint32_t{'a' ^ 'b'} << 10 | 1 << 8 | 'a';
    units['b'] = uint32_t{1} << 31 | 2;
  }
  std::string encoded() const {
    std::string bytes;
    const auto put = [&](uint32_t n) {
      for (int k = 0; k < 4; ++k) bytes += static_cast<char>(n >> 8 * k & 0xFF);
    };
    put(static_cast<uint32_t>(units.size() * 4));
    for (uint32_t unit : units) put(unit);
    return base64(bytes + texts);
  }
};

TEST(Charsmap, FindsWhatATextBeginsWith) {
  const Charsmap map(SmallMap().encoded());
  EXPECT_EQ(map.replacement("a"), "bc");
  EXPECT_EQ(map.replacement("ab"), "bc");
  EXPECT_EQ(map.replacement("b"), std::nullopt);
  EXPECT_EQ(map.replacement(""), std::nullopt);
  EXPECT_EQ(map.replacement(std::string(1, '\0')), std::nullopt);
}

TEST(Charsmap, TextDoesNotGrowBeyondALimit) {
  SmallMap map;
  map.texts = "xy" + std::string(64 << 10, 'z');
  Json j = unigram(R"([["<unk>", 0]])");
  j["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", map.encoded()}};
  const Tokenizer t(j);
  EXPECT_EQ(t.encode("aa", false).ids, (Ids{0}));
  EXPECT_EQ(message_of([&] { t.encode(std::string(5000, 'a'), false); }),
            "Precompiled would make a text of more than 4234304 bytes");
}

TEST(Charsmap, DamagedOnesAreRefused) {
  const auto refusal = [](const std::string& encoded) {
    return message_of([&] {
      Json j = unigram(R"([["<unk>", 0]])");
      j["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", encoded}};
      Tokenizer{j};
    });
  };
  const std::string prefix = "normalizer: precompiled_charsmap ", good = SmallMap().encoded();
  EXPECT_EQ(refusal(good), "accepted");
  EXPECT_EQ(refusal("*" + good.substr(1)), prefix + "is not base64");
  EXPECT_EQ(refusal(good.substr(1)), prefix + "is not base64");
  EXPECT_EQ(refusal("===="), prefix + "is not base64");
  const std::string cut = " bytes, expected an array of 1024 and texts: is the file truncated?";
  EXPECT_EQ(refusal(good.substr(0, 1024)), prefix + "has 768" + cut);
  EXPECT_NE(refusal("").find("has 0 bytes, expected an array"), std::string::npos);
  EXPECT_NE(refusal("AAAA").find("has 3 bytes, expected an array"), std::string::npos);

  const auto damaged = [&](auto&& damage) {
    SmallMap map;
    damage(map);
    return refusal(map.encoded());
  };
  const std::string outside = prefix + "is damaged: a replacement lies outside of its texts";
  const std::string nowhere = prefix + "is damaged: its array leads nowhere";
  EXPECT_EQ(damaged([](SmallMap& m) { m.units['b'] += 4; }), outside);
  EXPECT_EQ(damaged([](SmallMap& m) { m.texts = "xyé"; }), "accepted");
  EXPECT_EQ(damaged([](SmallMap& m) { m.texts = "xéy"; }), outside) << "in the middle of a character";
  EXPECT_EQ(damaged([](SmallMap& m) { m.texts = "x\xFF"; }), prefix + "has texts that are not UTF-8");
  EXPECT_EQ(damaged([](SmallMap& m) { m.units['a'] |= 1u << 30; }), nowhere);
  EXPECT_EQ(damaged([](SmallMap& m) { m.units['b'] = 'b'; }), nowhere) << "no value where one is promised";
  EXPECT_EQ(damaged([](SmallMap& m) { m.units.resize(200); }), nowhere) << "part of a block";
  EXPECT_EQ(damaged([](SmallMap& m) { m.units[0] = uint32_t{1} << 31; }),
            prefix + "is damaged: its array begins with a value");
}

}  // namespace
}  // namespace kvcal
