#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <fstream>

#include "base/sha256.h"
#include "base/token_kind.h"
#include "prompts/chat_template.h"
#include "prompts/prompt_set.h"
#include "tokenizer/tokenizer.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

TEST(PromptSet, ReadsEveryKindOfRecord) {
  const PromptSet set = parse_prompts(
      "{\"text\": \"a\", \"id\": \"x\", \"weight\": 3, \"tags\": [\"t\"]}\n\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"tools\": []}\r\n"
      "{\"conversations\": [{\"from\": \"human\", \"value\": \"hi\"}, {\"from\": \"gpt\", \"value\": \"yo\"}], "
      "\"system\": \"s\"}\n"
      "{\"prompt\": \"p\", \"completion\": \"c\"}\n{\"input_ids\": [1, 2]}",
      "p.jsonl");
  ASSERT_EQ(set.records.size(), 5u);
  EXPECT_EQ(set.records[0].id, "x");
  EXPECT_EQ(set.records[0].weight, 3);
  EXPECT_EQ(set.records[0].tags, std::vector<std::string>{"t"});
  EXPECT_EQ(set.records[1].source, "p.jsonl:3");
  EXPECT_TRUE(set.records[1].tools.is_array());
  EXPECT_EQ(set.records[2].messages.dump(),
            R"([{"role":"system","content":"s"},{"role":"user","content":"hi"},{"role":"assistant","content":"yo"}])");
  EXPECT_EQ(set.records[3].text, "pc");
  EXPECT_EQ(set.records[4].input_ids, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(set.records[4].canonical, R"({"input_ids":[1,2]})");
}

TEST(PromptSet, IdsComeFromContentNotFromOrder) {
  const PromptSet a = parse_prompts("{\"text\": \"a\"}\n{\"text\": \"b\"}\n{\"text\": \"a\"}\n", "p.jsonl");
  const PromptSet b = parse_prompts("{\"text\": \"b\"}\n{\"text\":\"a\"}\n{\"prompt\": \"a\"}\n", "p.jsonl");
  EXPECT_EQ(a.records[0].id.size(), 16u);
  EXPECT_EQ(a.records[2].id, a.records[0].id + "#2");
  EXPECT_EQ(b.records[1].id, a.records[0].id);
  EXPECT_EQ(b.records[2].id, a.records[2].id);
  EXPECT_EQ(b.records[0].id, a.records[1].id);
}

TEST(PromptSet, TextFilesAndArrays) {
  EXPECT_EQ(parse_prompts("one\ntwo\n", "p.txt").records.at(0).text, "one\ntwo");
  const PromptSet set = parse_prompts("[{\"text\": \"a\"}, {\"text\": \"b\"}]", "p.json");
  EXPECT_EQ(set.records.at(1).source, "p.json: record 2");
  EXPECT_EQ(parse_prompts("\xEF\xBB\xBF{\"text\": \"a\"}", "p.jsonl").records.at(0).text, "a");
}

struct Broken {
  const char* line;
  const char* message;
};

TEST(PromptSet, KeysOfOtherPeopleAreLeftAlone) {
  const PromptSet set =
      parse_prompts(R"({"text": "a", "source": "web", "language": "en", "meta": {"x": 1}})", "p.jsonl");
  ASSERT_EQ(set.records.size(), 1u);
  EXPECT_EQ(set.records[0].id, parse_prompts(R"({"text": "a"})", "p.jsonl").records[0].id)
      << "content alone makes the id";
}

TEST(PromptSet, BadRecordsNameFileLineAndReason) {
  const Broken broken[] = {
      {"{", "p.jsonl:2: "},
      {"5", "record is number, expected an object or a text"},
      {"{\"txt\": \"a\"}", "unknown key 'txt'; did you mean 'text'?"},
      {"{}", "none of \"text\""},
      {"{\"text\": 5}", "text"},
      {"{\"text\": \"a\", \"input_ids\": [1]}", "both \"text\" and \"input_ids\""},
      {"{\"input_ids\": [1, -2]}", "input_ids[1] is '-2'"},
      {"{\"input_ids\": [1.5]}", "input_ids[0]"},
      {"{\"text\": \"a\", \"embeddings\": \"e\"}", "embeddings without input_ids"},
      {"{\"messages\": [{\"role\": \"user\"}], \"image\": \"a\"}",
       "image beside messages; put it into the content of a message"},
      {"{\"text\": \"a\", \"image\": [5]}", "image is number, expected a text or a list of texts"},
      {"{\"input_ids\": [1], \"embeddings\": 5}", "embeddings"},
      {"{\"input_ids\": [99999999999]}", "expected a token id"},
      {"{\"messages\": []}", "messages is empty"},
      {"{\"messages\": [{\"content\": \"a\"}]}", "messages[0] has no \"role\""},
      {"{\"messages\": [5]}", "messages[0] is number"},
      {"{\"conversations\": [{\"from\": \"humn\", \"value\": \"a\"}]}", "did you mean 'human'?"},
      {"{\"text\": \"a\", \"weight\": 0}", "weight is 0"},
      {"{\"text\": \"a\", \"weight\": 1.5}", "weight"},
      {"{\"text\": \"a\", \"tags\": [1]}", "tags holds '1'"},
      {"{\"text\": \"a\", \"completion\": \"b\"}", "completion without prompt"},
      {"{\"text\": \"a\", \"text\": \"b\"}", "p.jsonl:2: "},
      {"{\"messages\": [{\"role\": \"user\", \"content\": {}}]}",
       "messages[0].content is object, expected a text or a list"},
      {"{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}], \"conversations\": []}", "both \"messages\" and"},
      {"{\"mesages\": []}", "unknown key 'mesages'; did you mean 'messages'?"},
      {"{\"instructions\": \"a\", \"output\": \"b\"}", "did you mean 'instruction'?"},
      {"{\"prompt\": [1, 2]}", "prompt is a list of something else than messages"},
      {"{\"text\": \"a\", \"id\": 1.5}", "key 'id' is 1.5"},
  };
  for (const Broken& b : broken) {
    const std::string text = std::string("{\"text\": \"ok\"}\n") + b.line + "\n";
    try {
      parse_prompts(text, "p.jsonl");
      ADD_FAILURE() << "accepted " << b.line;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("p.jsonl:2: "), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(b.message), std::string::npos) << e.what();
    }
    PromptLoadOptions skip;
    skip.skip_bad = true;
    const PromptSet set = parse_prompts(text, "p.jsonl", skip);
    EXPECT_EQ(set.records.size(), 1u);
    EXPECT_EQ(set.skipped.size(), 1u);
  }
}

TEST(PromptSet, LimitsAndConflicts) {
  EXPECT_THROW(parse_prompts("\n\n", "p.jsonl"), Error);
  EXPECT_EQ(
      parse_prompts("{\"text\": \"a\", \"id\": \"x\"}\n{\"text\": \"a\", \"id\": \"x\"}", "p.jsonl").records[1].id,
      "x#2");
  PromptLoadOptions small;
  small.max_line_bytes = 10;
  EXPECT_THROW(parse_prompts("{\"text\": \"aaaaaaaaaa\"}", "p.jsonl", small), Error);
  small = {};
  small.max_records = 1;
  EXPECT_THROW(parse_prompts("{\"text\": \"a\"}\n{\"text\": \"b\"}", "p.jsonl", small), Error);
  EXPECT_EQ(parse_prompts("{\"text\": \"a\xFF\"}", "p.jsonl").replaced, 1u);
  small = {};
  small.strict_utf8 = true;
  EXPECT_THROW(parse_prompts("{\"text\": \"a\xFF\"}", "p.jsonl", small), Error);
}

TEST(PromptSet, PackedFiles) {
  const fs::path folder = fs::path(testing::TempDir()) / "kvcal_text_prompts";
  fs::create_directories(folder);
  const std::string text = "{\"text\": \"packed\"}\n";
  gzFile gz = gzopen((folder / "p.jsonl.gz").c_str(), "wb");
  gzwrite(gz, text.data(), static_cast<unsigned>(text.size()));
  gzclose(gz);
  std::string zst(ZSTD_compressBound(text.size()), '\0');
  zst.resize(ZSTD_compress(zst.data(), zst.size(), text.data(), text.size(), 3));
  std::ofstream(folder / "p.jsonl.zst", std::ios::binary) << zst;
  std::ofstream(folder / "cut.jsonl.zst", std::ios::binary) << zst.substr(0, zst.size() - 3);
  std::ofstream(folder / "bad.jsonl.gz") << "not gzip";
  const PromptSet set = load_prompts({folder / "p.jsonl.gz", folder / "p.jsonl.zst"});
  EXPECT_EQ(set.records.at(0).text, "packed");
  EXPECT_EQ(set.records.at(1).id, set.records.at(0).id + "#2");
  PromptLoadOptions small;
  small.max_file_bytes = 60;
  EXPECT_THROW(load_prompts({folder / "cut.jsonl.zst"}), Error);
  EXPECT_THROW(load_prompts({folder / "bad.jsonl.gz"}), Error);
  EXPECT_THROW(load_prompts({folder / "absent.jsonl"}), Error);
  fs::remove_all(folder);
}

TEST(PromptSet, PicturesCountByContentInEverySpelling) {
  const fs::path folder = fs::path(testing::TempDir()) / "kvcal_text_pictures";
  fs::create_directories(folder);
  std::ofstream(folder / "a.png", std::ios::binary) << "AB";
  const std::string sha = "sha256:" + sha256_hex("AB");
  const auto record = [&](const std::string& part) {
    std::ofstream(folder / "p.jsonl") << R"({"messages": [{"role": "user", "content": [)" + part +
                                             R"(, {"type": "text", "text": "a"}]}]})";
    return load_prompts({folder / "p.jsonl"}).records.at(0);
  };
  const PromptRecord one = record(R"({"type": "image", "image": "a.png"})");
  EXPECT_EQ(one.canonical, R"({"messages":[{"content":[{"image":")" + sha +
                               R"(","type":"image"},{"text":"a","type":"text"}],"role":"user"}]})");
  EXPECT_EQ(*one.pictures.at(0).bytes, "AB");
  for (const char* part : {R"({"type": "image", "path": "a.png"})", R"({"type": "image", "url": "data:;base64,QUI="})",
                           R"({"type": "image_url", "image_url": {"url": "data:image/png;base64,QUI"}})",
                           R"({"type": "image_url", "image_url": "a.png"})"})
    EXPECT_EQ(record(part).canonical, one.canonical) << part;
  std::ofstream(folder / "a.png", std::ios::binary) << "BA";
  EXPECT_NE(record(R"({"type": "image", "image": "a.png"})").id, one.id);
  EXPECT_TRUE(record(R"({"type": "image"})").pictures.empty()) << "a part without a source is the template's business";
  std::ofstream(folder / "p.jsonl") << R"({"text": "b", "image": "a.png"})";
  EXPECT_EQ(load_prompts({folder / "p.jsonl"}).records.at(0).canonical,
            R"({"image":["sha256:)" + sha256_hex("BA") + R"("],"text":"b"})");
  fs::remove_all(folder);
}

TEST(PromptSet, EmbeddingsLieBesideTheirFileAndCountByContent) {
  const fs::path folder = fs::path(testing::TempDir()) / "kvcal_text_embeddings";
  fs::create_directories(folder / "sub");
  const auto record = [&](const std::string& bytes) {
    std::ofstream(folder / "sub/e.safetensors", std::ios::binary) << bytes;
    std::ofstream(folder / "p.jsonl") << R"({"input_ids": [1, 2], "embeddings": "sub/e.safetensors"})";
    return load_prompts({folder / "p.jsonl"}).records.at(0);
  };
  const PromptRecord one = record("one"), other = record("two");
  EXPECT_EQ(one.embeddings, folder / "sub/e.safetensors");
  EXPECT_EQ(one.canonical, R"({"embeddings":")" + sha256_hex("one") + R"(","input_ids":[1,2]})");
  EXPECT_NE(one.id, other.id) << "the same tokens with another picture";
  EXPECT_NE(one.id, parse_prompts(R"({"input_ids": [1, 2]})", "p.jsonl").records.at(0).id);

  TokenizeOptions options;
  options.vocab_size = 9;
  options.max_length = 1;
  const auto message = [](const auto& act) {
    try {
      act();
      return std::string("accepted");
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  EXPECT_NE(message([&] {
              tokenize_prompts(load_prompts({folder / "p.jsonl"}), nullptr, nullptr, options);
            }).find("a prompt with images cannot be truncated"),
            std::string::npos);
  fs::remove(folder / "sub/e.safetensors");
  EXPECT_NE(message([&] { load_prompts({folder / "p.jsonl"}); }).find("e.safetensors' is not a file"),
            std::string::npos);
  std::ofstream(folder / "p.jsonl") << R"({"input_ids": [1], "embeddings": "sub"})";
  EXPECT_NE(message([&] { load_prompts({folder / "p.jsonl"}); }).find("sub' is not a file"), std::string::npos);
  fs::remove_all(folder);
}

Tokenizer letters() {
  return Tokenizer(
      Json::parse(R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "<s>": 2, "U": 3, "A": 4}, "merges": []},
    "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
      {"Sequence": {"id": "A", "type_id": 0}}], "special_tokens": {"<s>": {"id": "<s>", "ids": [2], "tokens": ["<s>"]}}}})"));
}

TEST(TokenizePrompts, TextGetsSpecialTokensAndChatsTheirTemplate) {
  const Tokenizer t = letters();
  const ChatTemplate chat(
      "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}A{% endif %}{{ k }}");
  const PromptSet set = parse_prompts(
      "{\"text\": \"ab\"}\n{\"messages\": [{\"role\": \"user\", \"content\": \"b\"}]}\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"b\"}, {\"role\": \"assistant\", \"content\": "
      "\"a\"}]}\n{\"input_ids\": [4, 0]}",
      "p.jsonl");
  TokenizeOptions options;
  options.max_length = 2;
  options.template_kwargs["k"] = "U";
  const TokenizedSet out = tokenize_prompts(set, &t, &chat, options);
  EXPECT_EQ(out.prompts[0].input_ids, (std::vector<int32_t>{2, 0}));
  EXPECT_EQ(out.prompts[1].text, "bAU");
  EXPECT_EQ(out.prompts[1].input_ids, (std::vector<int32_t>{1, 4}));
  EXPECT_EQ(out.prompts[2].text, "baU");
  EXPECT_EQ(out.prompts[3].input_ids, (std::vector<int32_t>{4, 0}));
  EXPECT_EQ(out.n_truncated, 3u);
  EXPECT_TRUE(out.prompts[0].truncated);
  EXPECT_EQ(out.prompts[0].n_before_truncation, 3);
  EXPECT_FALSE(out.prompts[3].truncated);
}

TEST(TokenizePrompts, LargeIntegersKeepTheirDigits) {
  const std::string chat_line =
      R"({"messages": [{"role": "user", "content": "", "arguments": {"wei": 123456789012345678901234567890, "u": 18446744073709551615}}]})";
  const Tokenizer t = letters();
  const ChatTemplate chat("{{ messages[0].arguments|tojson }}{{ messages[0].arguments.wei }}{{ k }}");
  TokenizeOptions options;
  options.template_kwargs["k"] = "a";
  for (const PromptSet& set : {parse_prompts(chat_line, "p.jsonl"), parse_prompts("[" + chat_line + "]", "p.json")}) {
    EXPECT_EQ(tokenize_prompts(set, &t, &chat, options).prompts[0].text,
              R"({"wei": 123456789012345678901234567890, "u": 18446744073709551615})"
              "123456789012345678901234567890a");
    EXPECT_NE(set.records[0].canonical.find(R"("wei":123456789012345678901234567890)"), std::string::npos);
  }
}

// ------------------------------------------------------------------ kinds of tokens

/// The kinds of a chat's tokens, one letter for each token: other, text, system, user, assistant, tool; turns 1 to 4.
std::string kinds_of(const char* chat_template, const char* messages, int64_t max_length = 0) {
  const Tokenizer t = letters();
  const ChatTemplate chat(chat_template);
  TokenizeOptions options;
  options.max_length = max_length;
  std::string kinds;
  const TokenizedSet set =
      tokenize_prompts(parse_prompts("{\"messages\": " + std::string(messages) + "}", "p.json"), &t, &chat, options);
  for (const uint8_t kind : set.prompts[0].kinds)
    kinds +=
        std::string(1, "-xsuato"[role_of_kind(kind)]) + (turn_of_kind(kind) ? std::to_string(turn_of_kind(kind)) : "");
  EXPECT_EQ(set.prompts[0].kinds.size(), set.prompts[0].input_ids.size());
  return kinds;
}

constexpr const char* kPlain =
    "{% for m in messages %}b{{ m.content }}{% endfor %}{% if add_generation_prompt %}b{% endif %}";

TEST(TokenKinds, FollowTheMessages) {
  EXPECT_EQ(kinds_of(kPlain, R"([{"role":"user","content":"a"}])"), "u1u1a1");
  EXPECT_EQ(kinds_of(kPlain, R"([{"role":"system","content":"a"},{"role":"user","content":"aa"},
                                {"role":"assistant","content":"a"},{"role":"tool","content":"a"},
                                {"role":"user","content":"b"},{"role":"assistant","content":"a"}])"),
            "ssu1u1u1a1a1t1t1u2u2a2a2");
  std::string messages, expected;
  for (int turn = 1; turn <= 6; ++turn) {
    messages += std::string(turn > 1 ? "," : "") + R"({"role":"user","content":"a"})";
    expected += turn < 4 ? "u" + std::to_string(turn) + "u" + std::to_string(turn) : "u4u4";
  }
  EXPECT_EQ(kinds_of(kPlain, ("[" + messages + "]").c_str()), expected + "a4");
  EXPECT_EQ(kinds_of(kPlain, R"([{"role":"user","content":"a"}])", 2), "u1u1") << "cut with the tokens";
}

TEST(TokenKinds, OfATemplateThatDropsWhatEarlierTurnsThought) {
  const char* last_thinks =
      "{% for m in messages %}{{ m.content }}{% if loop.last and m.role == 'assistant' %}U{% endif %}{% endfor %}";
  // The end of the first reply, rendered last, is another one; its content tells.
  EXPECT_EQ(kinds_of(last_thinks, R"([{"role":"user","content":"a"},{"role":"assistant","content":"bb"},
                                     {"role":"user","content":"a"},{"role":"assistant","content":"b"}])"),
            "u1a1a1u2a2a2");
  // Contents that are there more than once tell nothing.
  EXPECT_EQ(kinds_of(last_thinks, R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"},
                                     {"role":"user","content":"b"},{"role":"assistant","content":"b"}])"),
            "u1--a2a2");
}

TEST(TokenKinds, OfMessagesThatATemplatePutsIntoOthers) {
  const char* merged =
      "{% for m in messages[1:] %}{% if loop.first %}{{ messages[0].content }}{% endif %}{{ m.content }}"
      "{% endfor %}{% if messages|length < 2 %}{{ raise_exception('no') }}{% endif %}";
  EXPECT_EQ(kinds_of(merged, R"([{"role":"system","content":"b"},{"role":"user","content":"a"},
                                {"role":"assistant","content":"aa"}])"),
            "su1a1a1");
}

TEST(TokenizePrompts, BadPromptsAreNamed) {
  const Tokenizer t = letters();
  const auto message = [&](const char* line, const Tokenizer* tokenizer, int64_t vocab_size) {
    TokenizeOptions options;
    options.vocab_size = vocab_size;
    try {
      tokenize_prompts(parse_prompts(line, "p.jsonl"), tokenizer, nullptr, options);
      return std::string("no error");
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  EXPECT_NE(message("{\"messages\": [{\"role\": \"user\"}]}", &t, 0).find("no chat template"), std::string::npos);
  EXPECT_NE(message("{\"text\": \"a\"}", nullptr, 9).find("needs a tokenizer"), std::string::npos);
  EXPECT_NE(message("{\"input_ids\": [0, 9]}", &t, 9).find("token 1 has id 9, but the model knows ids below 9"),
            std::string::npos);
  EXPECT_NE(message("{\"input_ids\": [], \"id\": \"e\"}", &t, 9).find("prompt 'e' (p.jsonl:1): has no tokens"),
            std::string::npos);
  EXPECT_EQ(message("{\"input_ids\": [8]}", nullptr, 9), "no error");
}

}  // namespace
}  // namespace kvcal
