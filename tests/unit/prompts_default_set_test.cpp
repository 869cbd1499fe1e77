// What datasets/default.jsonl promises: how much of what is in it.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/read_file.h"
#include "base/sha256.h"
#include "prompts/default_prompts.h"
#include "prompts/prompt_set.h"
#include "tokenizer/regex.h"
#include "unicode/utf8.h"
#include "vision/image.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;
const fs::path kFolder = fs::path(KVCAL_SOURCE_DIR) / "datasets";

const PromptSet& default_set() {
  static const PromptSet set = load_prompts({kFolder / "default.jsonl"});
  return set;
}

// All text of a record, without the names of its keys.
std::string text_of(const PromptRecord& r) {
  std::string all = r.text;
  for (const Json& m : r.messages)
    if (m.contains("content") && m["content"].is_string()) all += m["content"].get<std::string>() + "\n";
  return all;
}

// Pieces of Qwen2's pattern: each is at least one token, whatever the vocabulary.
size_t n_pieces(const std::string& text) {
  static const Regex pattern(
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)");
  Allowance allowance(text.size());
  return pattern.find_all(text, allowance).size();
}

template <class F>
int64_t count(F&& holds) {
  return std::count_if(default_set().records.begin(), default_set().records.end(), holds);
}

int64_t n_with_prefix(const std::string& prefix) {
  return count([&](const PromptRecord& r) { return r.id.starts_with(prefix); });
}

TEST(DefaultPrompts, AreManyAndNotTooLarge) {
  EXPECT_GE(default_set().records.size(), 120u);
  size_t pieces = 0;
  for (const PromptRecord& r : default_set().records) pieces += n_pieces(text_of(r));
  EXPECT_GE(pieces, 30'000u);
  EXPECT_LT(fs::file_size(kFolder / "default.jsonl"), 600'000u);
}

TEST(DefaultPrompts, HoldEveryKindOfText) {
  EXPECT_GE(n_with_prefix("code-"), 15);
  EXPECT_GE(n_with_prefix("math-"), 10);
  EXPECT_GE(n_with_prefix("doc-"), 10);
  EXPECT_GE(n_with_prefix("lang-"), 10);
  EXPECT_GE(n_with_prefix("odd-"), 5);
  EXPECT_GE(n_with_prefix("json-"), 1);
  EXPECT_GE(count([](const PromptRecord& r) { return r.tools.is_array() && !r.tools.empty(); }), 5);
  EXPECT_GE(count([](const PromptRecord& r) { return text_of(r).find("<think>") != std::string::npos; }), 5);
  EXPECT_GE(count([](const PromptRecord& r) {
              return std::count_if(r.messages.begin(), r.messages.end(),
                                   [](const Json& m) { return m["role"] == "user"; }) > 1;
            }),
            20)
      << "several turns";
  EXPECT_GE(count([](const PromptRecord& r) {
              const std::u32string codes = to_code_points(text_of(r));
              return std::any_of(codes.begin(), codes.end(), [](char32_t c) { return c >= 0x1F300 && c <= 0x1FAFF; });
            }),
            3)
      << "emoji";
  EXPECT_GE(count([](const PromptRecord& r) { return n_pieces(text_of(r)) >= 2'500; }), 3) << "long documents";
}

TEST(DefaultPrompts, ArePartOfTheProgram) {
  EXPECT_TRUE(default_prompts() == read_file(kFolder / "default.jsonl", size_t{1} << 20))
      << default_prompts().size() << " bytes";
}

TEST(DefaultPrompts, ReadmeHasTheirHash) {
  for (const char* file : {"default.jsonl", "pictures/prompts.jsonl"}) {
    const std::string hash = sha256_hex(read_file(kFolder / file, size_t{1} << 20));
    EXPECT_NE(read_file(kFolder / "README.md", size_t{1} << 20).find(hash), std::string::npos) << hash;
  }
}

TEST(PicturePrompts, HaveAPictureEach) {
  const PromptSet set = load_prompts({kFolder / "pictures/prompts.jsonl"});
  EXPECT_EQ(set.records.size(), 8u);
  for (const PromptRecord& r : set.records) {
    ASSERT_EQ(r.pictures.size(), 1u) << r.id;
    EXPECT_GE(decode_image(*r.pictures[0].bytes).size.height, 48) << r.id;
  }
}

}  // namespace
}  // namespace kvcal
