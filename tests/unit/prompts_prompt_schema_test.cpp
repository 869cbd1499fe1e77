// The shipped schema of prompt records says what the reader does: it accepts what the reader accepts and refuses what
// the reader refuses for its shape.
#include <gtest/gtest.h>

#include <filesystem>

#include "artifact/schema_check.h"
#include "base/read_file.h"
#include "prompts/prompt_record.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

bool reader_accepts(const Json& record) {
  try {
    parse_prompt_record(record);
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<SchemaError> schema_errors(const Json& record) {
  static const std::string schema =
      read_file(fs::path(KVCAL_SOURCE_DIR) / "schemas/prompts.v1.schema.json", size_t{1} << 20);
  return check_schema(record, schema);
}

bool schema_accepts(const Json& record) { return schema_errors(record).empty(); }

const char* const kAccepted[] = {
    R"({"text": ""})",
    R"({"text": "a", "id": "x", "weight": 3, "tags": ["t"], "source": "web", "meta": {"x": 1}})",
    R"({"messages": [{"role": "user", "content": "hi"}], "tools": []})",
    R"({"messages": [{"role": "assistant", "content": null, "tool_calls": []}], "tools": [{"type": "function"}]})",
    R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}], "tools": null, "text": null})",
    R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}], "system": "s"})",
    R"({"conversations": [{"role": "user", "content": "a"}], "tools": []})",
    R"({"prompt": "p"})",
    R"({"prompt": "p", "completion": "c"})",
    R"({"input_ids": [0, 2147483647]})",
    R"({"input_ids": []})",
    R"({"input_ids": [1], "image": "a.png"})",
    R"({"text": "a", "image": ["a.png", "b.jpg"], "embeddings": null})",
    R"({"text": "a", "id": null, "weight": null, "tags": null, "completion": null})",
    R"("a")",
    R"({"text": "a", "id": 5})",
    R"({"prompt": "p", "prompt_id": "x", "messages": [{"role": "user", "content": "a"}]})",
    R"({"messages": [{"role": "user", "content": "a"}], "system": "s", "tools": "[]", "weights": 1})",
    R"({"messages": [{"from": "human", "value": "a"}]})",
    R"({"conversations": [{"role": "human", "value": "a"}]})",
    R"({"conversation": [{"user": "a", "assistant": "b"}]})",
    R"({"prompt": [{"role": "user", "content": "a"}], "completion": [{"role": "assistant", "content": "b"}]})",
    R"({"instruction": "a", "input": "b", "output": "c", "history": [["d", "e"]]})",
    R"({"custom_id": "a", "body": {"messages": [{"role": "user", "content": "a"}]}})",
    R"({"request": {"prompt": "a"}, "response": null})",
    R"({"params": {"messages": [{"role": "user", "content": "a"}], "system": [{"type": "text", "text": "b"}]}})",
    R"({"messages": "[{\"role\": \"user\", \"content\": \"a\"}]"})",
    R"({"prompt": "p", "chosen": [{"role": "user", "content": "a"}], "rejected": "r"})",
    R"({"inputs": "a", "parameters": {}})",
    R"({"items": [{"from": "human", "value": "a"}]})",
    R"({"data": ["a", "b"]})",
    R"({"turns": ["a"], "category": "b"})",
    R"({"contents": [{"parts": [{"text": "a"}]}], "system_instruction": {"parts": [{"text": "b"}]}})",
    R"({"model": "m", "input": "a", "instructions": "b"})",
    R"({"input": [{"role": "user", "content": "a"}], "output": "b"})",
    R"({"system_prompt": "a", "question": "b", "response": "c"})",
    R"({"query": "b", "response": "c", "history": []})",
    R"({"problem": "b", "solution": "c", "answer": 5})",
    R"({"text": "a", "data": 5, "turns": 2})",
};

const char* const kRefused[] = {
    R"(5)",
    R"([])",
    R"({})",
    R"({"text": null})",
    R"({"text": 5})",
    R"({"text": "a", "input_ids": [1]})",
    R"({"text": "a", "prompt": "b"})",
    R"({"text": "a", "tools": []})",
    R"({"text": "a", "completion": "b"})",
    R"({"text": "a", "system": "b"})",
    R"({"text": "a", "weight": 0})",
    R"({"text": "a", "weight": 1000001})",
    R"({"text": "a", "weight": 1.5})",
    R"({"text": "a", "weight": true})",
    R"({"text": "a", "tags": [1]})",
    R"({"text": "a", "tags": "t"})",
    R"({"text": "a", "id": 1.5})",
    R"({"prompt": ["a"]})",
    R"({"instruction": 5})",
    R"({"instruction": "a", "history": ["b"]})",
    R"({"conversations": [{"role": "user", "content": 5}]})",
    R"({"body": {"model": "m"}})",
    R"({"input_ids": [1, -2]})",
    R"({"input_ids": [1.5]})",
    R"({"input_ids": [2147483648]})",
    R"({"input_ids": 5})",
    R"({"text": "a", "embeddings": "e.safetensors"})",
    R"({"input_ids": [1], "embeddings": 5})",
    R"({"text": "a", "image": 5})",
    R"({"text": "a", "image": [5]})",
    R"({"input_ids": [1], "image": "a.png", "embeddings": "e"})",
    R"({"messages": [{"role": "user", "content": "a"}], "image": "a.png"})",
    R"({"messages": []})",
    R"({"messages": "a"})",
    R"({"messages": [5]})",
    R"({"messages": [{"content": "a"}]})",
    R"({"messages": [{"role": 5}]})",
    R"({"messages": [{"role": "user"}], "tools": {}})",
    R"({"conversations": []})",
    R"({"conversations": [{"from": "humn", "value": "a"}]})",
    R"({"conversations": [{"from": "human"}]})",
    R"({"conversations": [{"from": "human", "value": 5}]})",
    R"({"prompt": "p", "completion": 5})",
    R"({"inputs": 5})",
    R"({"data": []})",
    R"({"data": ["a", 5]})",
    R"({"turns": [5]})",
    R"({"items": ["a"]})",
    R"({"contents": [{"parts": [{"inlineData": {}}]}]})",
    R"({"input": "a"})",
    R"({"input": ["a"], "model": "m"})",
    R"({"question": "a"})",
    R"({"question": "a", "answer": true})",
    R"({"question": "a", "answer": "b", "choices": []})",
    R"({"chosen": "a", "rejected": "b"})",
};

TEST(PromptSchema, AcceptsWhatTheReaderAccepts) {
  for (const char* record : kAccepted) {
    EXPECT_TRUE(reader_accepts(Json::parse(record))) << record;
    EXPECT_TRUE(schema_accepts(Json::parse(record))) << record;
  }
}

TEST(PromptSchema, RefusesWhatTheReaderRefuses) {
  for (const char* record : kRefused) {
    EXPECT_FALSE(reader_accepts(Json::parse(record))) << record;
    EXPECT_FALSE(schema_accepts(Json::parse(record))) << record;
  }
}

// The checker reads short texts only; how long one is makes no difference here.
void shorten(Json& j) {
  if (j.is_string() && j.get_ref<const std::string&>().size() > 4000) j = "long";
  if (j.is_structured())
    for (Json& member : j) shorten(member);
}

TEST(PromptSchema, AcceptsTheShippedSets) {
  for (const char* file : {"datasets/default.jsonl", "datasets/demo/prompts.jsonl", "datasets/demo/questions.jsonl"}) {
    const std::string text = read_file(fs::path(KVCAL_SOURCE_DIR) / file, size_t{16} << 20);
    size_t n = 0;
    for (size_t begin = 0; begin < text.size(); ++n) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      Json record = Json::parse(text.substr(begin, end - begin));
      shorten(record);
      const auto errors = schema_errors(record);
      EXPECT_TRUE(errors.empty()) << file << ':' << n + 1 << ": " << errors.at(0).path << ": " << errors.at(0).message;
      begin = end + 1;
    }
    EXPECT_GT(n, 10u);
  }
}

}  // namespace
}  // namespace kvcal
