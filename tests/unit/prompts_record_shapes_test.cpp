// Prompts as people have them: shapes of records, forms of files.
#include <gtest/gtest.h>

#include <algorithm>

#include "prompts/prompt_set.h"

namespace kvcal {
namespace {

// Each of them says the same.
TEST(PromptSet, ChatsOfPublicSetsInEverySpelling) {
  const char* const kSpellings[] = {
      R"({"messages": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "q"}]})",
      // ultrachat_200k, ultrafeedback
      R"({"prompt": "p", "prompt_id": "abc", "messages": [{"role": "user", "content": "p"},
          {"role": "assistant", "content": "q"}], "score_chosen": 8.5})",
      R"({"text": "<s>p q</s>", "messages": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "q"}]})",
      // ShareGPT and its relatives
      R"({"conversations": [{"from": "human", "value": "p"}, {"from": "gpt", "value": "q"}], "idx": 1})",
      R"({"conversations": [{"from": "Human", "value": "p", "weight": 0}, {"from": "ChatGPT", "value": "q"}], "system": ""})",
      R"({"conversations": [{"role": "human", "value": "p"}, {"role": "gpt", "value": "q"}]})",
      R"({"conversation": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "q"}], "tools": ""})",
      R"({"conversations": [{"role": "user", "text": "p"}, {"role": "bot", "text": "q"}]})",
      R"({"conversations": [{"user": "p", "assistant": "q"}]})",
      R"({"messages": [{"from": "prompter", "value": "p"}, {"from": "model", "value": "q"}]})",
      R"({"messages": [{"role": "human", "content": "p"}, {"role": "Assistant", "content": "q"}]})",
      // requests to servers, in batches and logs
      R"({"model": "m", "messages": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "q"}],
          "temperature": 0, "max_tokens": 5, "stream": true, "tool_choice": "auto", "images": []})",
      R"({"custom_id": "r1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m", "messages":
          [{"role": "user", "content": "p"}, {"role": "assistant", "content": "q"}]}})",
      R"({"request": {"body": {"messages": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "q"}]}},
          "response": {}})",
      // preferences
      R"({"prompt": [{"role": "user", "content": "p"}], "completion": [{"role": "assistant", "content": "q"}]})",
      // Alpaca, Dolly
      R"({"instruction": "p", "input": "", "output": "q"})",
      R"({"instruction": "p", "context": "", "response": "q", "category": "open_qa"})",
      R"({"instruction": "p", "output": "q", "history": [], "system": ""})",
      // UltraFeedback, DPO pairs
      R"({"prompt": "p", "chosen": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "q"}],
          "rejected": []})",
      R"({"prompt": [{"role": "user", "content": "p"}], "chosen": [{"role": "assistant", "content": "q"}]})",
      R"({"system": "", "question": "p", "chosen": "q", "rejected": "r"})",
      // ShareGPT as it was collected, UltraChat as it was made, OpenOrca, GSM8K, MetaMath, MATH, Nemotron
      R"({"items": [{"from": "human", "value": "p"}, {"from": "gpt", "value": "q"}]})",
      R"({"data": ["p", "q"]})",
      R"({"system_prompt": "", "question": "p", "response": "q"})",
      R"({"question": "p", "answer": "q"})",
      R"({"query": "p", "response": "q", "type": "GSM"})",
      R"({"problem": "p", "solution": "q", "level": 1})",
      R"({"input": [{"role": "user", "content": "p"}], "output": "q"})",
      R"({"messages": "[{\"role\": \"user\", \"content\": \"p\"}, {\"role\": \"assistant\", \"content\": \"q\"}]"})",
      // requests to Gemini, OpenAI's responses, batches of Anthropic's
      R"({"contents": [{"parts": [{"text": "p"}]}, {"role": "model", "parts": [{"text": "q"}]}]})",
      R"({"model": "m", "input": "p", "output": [{"type": "message", "role": "assistant", "content": "q"}]})",
      R"({"custom_id": "a", "params": {"messages": [{"role": "user", "content": "p"},
          {"role": "assistant", "content": "q"}]}})",
  };
  for (const char* spelling : kSpellings) {
    const PromptRecord r = parse_prompts(Json::parse(spelling).dump(), "p.jsonl").records.at(0);
    EXPECT_EQ(r.kind, PromptKind::Chat) << spelling;
    EXPECT_EQ(r.messages.dump(), R"([{"role":"user","content":"p"},{"role":"assistant","content":"q"}])") << spelling;
    EXPECT_TRUE(r.tools.is_null()) << spelling;
    EXPECT_EQ(r.id, parse_prompts(kSpellings[0], "p.jsonl").records.at(0).id) << spelling;
  }
}

TEST(PromptSet, ChatsKeepWhatTemplatesNeed) {
  const auto messages = [](const char* record) {
    return parse_prompts(record, "p.jsonl").records.at(0).messages.dump();
  };
  EXPECT_EQ(messages(R"({"instruction": "a", "input": "b", "history": [["c", "d"]], "system": "s"})"),
            R"([{"role":"system","content":"s"},{"role":"user","content":"c"},{"role":"assistant","content":"d"},)"
            R"({"role":"user","content":"a\nb"}])");
  EXPECT_EQ(messages(R"({"conversations": [{"role": "assistant", "content": null, "tool_calls": [1], "loss": 0}]})"),
            R"([{"role":"assistant","content":null,"tool_calls":[1]}])");
  EXPECT_EQ(messages(R"({"messages": [{"content": "a", "role": "ipython", "own": 1}]})"),
            R"([{"content":"a","role":"ipython","own":1}])");
  EXPECT_EQ(messages(R"({"messages": [{"role": "system", "content": "a"}], "system": "b"})"),
            R"([{"role":"system","content":"a"}])");
  // Of MT-bench's turns the answers belong between.
  EXPECT_EQ(messages(R"({"question_id": 81, "turns": ["a", "b"]})"), R"([{"role":"user","content":"a"}])");
  EXPECT_EQ(messages(R"({"systemInstruction": {"parts": [{"text": "s"}]}, "contents": [{"parts": [{"text": "a"}]}]})"),
            R"([{"role":"system","content":"s"},{"role":"user","content":"a"}])");
  EXPECT_EQ(messages(R"({"instructions": "s", "input": [{"role": "user", "content": "a"}]})"),
            R"([{"role":"system","content":"s"},{"role":"user","content":"a"}])");
  EXPECT_EQ(messages(R"({"system": [{"type": "text", "text": "s"}], "messages": [{"role": "user", "content": "a"}]})"),
            R"([{"role":"system","content":[{"type":"text","text":"s"}]},{"role":"user","content":"a"}])");
  const char* tools = R"({"conversations": [{"from": "human", "value": "a"}], "tools": "[{\"name\": \"f\"}]"})";
  EXPECT_EQ(parse_prompts(tools, "p.jsonl").records.at(0).tools.dump(), R"([{"name":"f"}])");
}

TEST(PromptSet, KeysOfChatsMayMeanSomethingElse) {
  for (const char* record :
       {R"({"text": "a", "data": ["b", "c"], "question": "b", "answer": "c"})",
        R"({"inputs": "a", "parameters": {"max_new_tokens": 1}})",
        R"({"prompt": "a", "canonical_solution": "b", "test": "c", "chosen": "d", "rejected": "e"})",
        R"({"text": "a", "turns": 2, "items": [], "input": "b", "model": "c"})"}) {
    const PromptRecord r = parse_prompts(record, "p.jsonl").records.at(0);
    EXPECT_EQ(r.kind, PromptKind::Text) << record;
    EXPECT_EQ(r.text, "a") << record;
  }
}

TEST(PromptSet, KnownRecordsThatAreNotReadAreNamed) {
  const auto message = [](const char* record) {
    try {
      parse_prompts(record, "p.jsonl");
      return std::string("accepted");
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  const std::pair<const char*, const char*> records[] = {
      {R"({"chosen": "\n\nHuman: a", "rejected": "\n\nHuman: b"})",
       "is a pair of transcripts, as Anthropic's HH has them"},
      {R"({"question": "a", "context": "b", "answers": {"text": ["c"]}})",
       "is a question about a text, as SQuAD has them"},
      {R"({"question": "a", "choices": ["b"], "answer": 0})", "is a question with choices, which is not read"},
      {R"({"question": "a", "options": ["b"], "answer": "A"})", "is a question with options, which is not read"},
      {R"({"custom_id": "a", "response": {"body": {"choices": []}}})", "is an answer of an OpenAI batch, without"},
      {R"({"role": "user", "content": "a"})", "is one message of a chat, which is not read"},
      {R"({"input": "a", "output": "b"})", "is an input with its output, which may be a chat or raw text"},
      {R"({"test": 1, "texts": {}, "prompts": 2})", "none of \"text\""},
      {R"({"url": "x", "content": "a b"})", "; if \"content\" is the text: jq -c "},
      {R"({"a'b": "a b"})", "none of \"text\""},
      {R"({"model": "m", "input": ["a"]})", "none of \"text\""},
      {R"({"messages": "[{'role': 'user'}]"})", "messages is a text, which is read as JSON: "},
      {R"({"contents": [{"parts": [{"inlineData": {}}]}]})", "contents[0].parts holds something else than texts"},
      {R"({"data": ["a", 5]})", "data holds a text and number, expected texts"},
  };
  for (const auto& [record, expected] : records) {
    const std::string what = message(record);
    EXPECT_NE(what.find(expected), std::string::npos) << what;
    EXPECT_EQ(what.find("did you mean"), std::string::npos) << what;
  }
}

TEST(PromptSet, IdsMayBeNumbers) {
  EXPECT_EQ(parse_prompts(R"({"id": 7, "text": "x"})", "p.jsonl").records.at(0).id, "7");
  EXPECT_EQ(parse_prompts(R"({"id": 99999999999999999999, "text": "x"})", "p.jsonl").records.at(0).id,
            "99999999999999999999");
}

// As equal records are: the ids are the same whichever comes first.
TEST(PromptSet, RepeatedIdsAreToldApartByContent) {
  const std::string a = R"({"id": "i", "text": "x"})", b = R"({"id": "i", "text": "y"})";
  const PromptSet ab = parse_prompts(a + "\n" + b + "\n" + a, "p.jsonl"), ba = parse_prompts(b + "\n" + a, "p.jsonl");
  EXPECT_EQ(ab.records[0].id, ba.records[1].id);
  EXPECT_EQ(ab.records[1].id, ba.records[0].id);
  EXPECT_EQ(ab.records[2].id, ab.records[0].id + "#2");
  EXPECT_TRUE(ab.records[0].id.starts_with("i#")) << ab.records[0].id;
  EXPECT_NE(ab.records[0].id, ab.records[1].id);
  ASSERT_EQ(ab.notes.size(), 1u);
  EXPECT_TRUE(ab.notes[0].starts_with("1 id(s) are used for several prompts, first 'i': ")) << ab.notes[0];
  EXPECT_TRUE(parse_prompts(a + "\n" + a, "p.jsonl").notes.empty());
}

// What is kept is what has the first ids, whatever is thrown away on the way, and repeats have the same numbers.
TEST(PromptSet, TheFirstByIdAreKept) {
  std::string lines, backwards;
  for (int i = 0; i < 5000; ++i) {
    const std::string line =
        i % 7 == 0 ? R"({"id": "n)" + std::to_string(i % 70) + R"(", "text": ")" + std::to_string(i % 3) + "\"}\n"
                   : "{\"text\": \"" + std::to_string(i % 900) + "\"}\n";
    lines += line;
    backwards = line + backwards;
  }
  const auto first_ids = [](const std::string& text, size_t first) {
    PromptLoadOptions options;
    options.first = first;
    std::vector<std::string> ids;
    for (const PromptRecord& r : parse_prompts(text, "p.jsonl", options).records) ids.push_back(r.id);
    std::ranges::sort(ids);
    EXPECT_TRUE(first == 0 || ids.size() < 2500) << ids.size();
    ids.resize(20);
    return ids;
  };
  EXPECT_EQ(first_ids(lines, 20), first_ids(lines, 0));
  EXPECT_EQ(first_ids(backwards, 20), first_ids(lines, 0));
}

TEST(PromptSet, FormsOfFilesAreSeenInTheirContents) {
  const auto texts = [](const char* text, const char* name) {
    std::string all;
    for (const PromptRecord& r : parse_prompts(text, name).records) all += r.source + "=" + r.text + " ";
    return all;
  };
  EXPECT_EQ(texts("[{\"text\": \"a\"}, {\"text\": \"]\\\"\"}]\n", "p.jsonl"),
            "p.jsonl: record 1=a p.jsonl: record 2=]\" ");
  EXPECT_EQ(texts("{\"text\":\"a\"}\n{\"text\":\"b\"}\n", "p.json"), "p.json:1=a p.json:2=b ");
  EXPECT_EQ(texts("\n{\n \"text\": \"a\"\n}", "p.json"), "p.json:2=a ");
  EXPECT_EQ(texts("[\"a\", \"b\"]", "p.json"), "p.json: record 1=a p.json: record 2=b ");
  EXPECT_EQ(texts("\"a\"\n\"b\"", "p.jsonl"), "p.jsonl:1=a p.jsonl:2=b ");
  EXPECT_EQ(texts("\xEF\xBB\xBF [{\"text\": \"a\"}]", "p.jsonl"), "p.jsonl: record 1=a ");
  EXPECT_EQ(texts("[{\"text\": \"a\"}]\n[{\"text\": \"b\"}]", "p.jsonl"), "p.jsonl: record 1=a p.jsonl: record 2=b ");
}

TEST(PromptSet, BrokenArraysNameTheirLine) {
  const auto message = [](const char* text) {
    try {
      parse_prompts(text, "p.json");
      return std::string("accepted");
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  EXPECT_EQ(message("[{\"text\": \"a\"},\n {\"text\": \"b\"}"),
            "p.json: not valid JSON at line 2: the file ends inside an array; is it complete?");
  EXPECT_EQ(message("[{\"text\": \"a\"}\n {\"text\": \"b\"}]"),
            "p.json: not valid JSON at line 2: expected ',' or ']' after record 1");
  EXPECT_EQ(message("[{\"text\": \"a\"},]"), "p.json: not valid JSON at line 1: expected a record, found ']'");
  EXPECT_EQ(message("[{\"text\": \"a}\n]"),
            "p.json: not valid JSON at line 1: a text has no closing quote in its line");
  EXPECT_EQ(message("{\"text\": \"a\""),
            "p.json: not valid JSON at line 1: the file ends inside the value that begins at line 1; is it complete?");
  EXPECT_EQ(message("[]"), "no prompt in the set");
}

TEST(PromptSet, TablesAreNamedWithALineThatConvertsThem) {
  const auto message = [](std::string_view text, const char* name) {
    try {
      parse_prompts(text, name);
      return std::string("accepted");
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  const auto says = [&](std::string_view text, const char* name, const char* format, const char* line) {
    const std::string what = message(text, name);
    EXPECT_TRUE(what.starts_with(std::string(name) + " is " + format + ", which is not read as prompts; ")) << what;
    EXPECT_NE(what.find(line), std::string::npos) << what;
  };
  says("text,label\n\"Hello, world\",1\n", "p.csv", "CSV", "csv.DictReader");
  says("text,label\n\"Hello, world\",1\n", "p.jsonl", "CSV", " p.jsonl > p.jsonl.jsonl");
  says("id,\"Prompt\"\n1,a\n", "standard input", "CSV", " FILE > FILE.jsonl");
  says("text\nHello\n", "p.jsonl", "CSV", "csv.DictReader");
  says("id\ttext\n1\ta\n", "p.jsonl", "CSV with tabs", "delimiter='\\t'");
  says("a,b\n", "p.tsv.gz", "CSV with tabs", "unpack it and make JSON lines of it");
  says("PAR1\x15\x04", "p.jsonl", "Parquet", "pandas.read_parquet");
  says("PAR1\x15\x04", "it's.parquet", "Parquet", " FILE > FILE.jsonl");
  says("ARROW1\x15\x04", "p.arrow", "Arrow", "pandas.read_feather");
  says("PK\x03\x04", "p.xlsx", "an Excel table", "pandas.read_excel");
  says("PK\x03\x04", "p.zip", "a ZIP archive", "; unpack it");
  EXPECT_EQ(message("\"text\"\n", "p.jsonl"), "accepted");
  EXPECT_EQ(message("text,label\n", "p.txt"), "accepted");
}

}  // namespace
}  // namespace kvcal
