// Chats as servers render them.
#include <gtest/gtest.h>

#include "base/token_kind.h"
#include "prompts/chat_template.h"
#include "prompts/haystack.h"
#include "prompts/prompt_set.h"
#include "prompts/served_messages.h"
#include "tokenizer/tokenizer.h"

namespace kvcal {
namespace {

constexpr const char* kPlain = "{% for m in messages %}[{{ m.content }}]{% endfor %}";

ContentForm form_of(const char* source) { return ChatTemplate(source).contents(false); }

// The loops that vLLM's and SGLang's detections find.
TEST(ContentForm, OfTemplatesThatGoThroughParts) {
  for (const char* source : {
           "{% for message in messages %}{% for c in message['content'] %}{{ c.text }}{% endfor %}{% endfor %}",
           "{% for x in messages %}{% for c in x.content %}{{ c.text }}{% endfor %}{% endfor %}",
           "{% set rest = messages[1:] %}{% for x in rest %}{% for c in x.content | list %}{{ c }}{% endfor %}{% "
           "endfor %}",
           "{% macro show(parts) %}{% for p in parts %}{{ p.text }}{% endfor %}{% endmacro %}"
           "{% for message in messages %}{{ show(message.content) }}{% endfor %}",
           "{% for msg in messages %}{% set content = msg.content %}{% for c in content %}{{ c }}{% endfor %}{% endfor "
           "%}",
       })
    EXPECT_NE(form_of(source), ContentForm::Text) << source;
  for (const char* source : {
           kPlain,
           "{% for message in messages %}{% if message.content is string %}{{ message.content }}{% endif %}{% endfor "
           "%}",
           "{% for message in messages %}{% for t in message.tool_calls %}{{ t }}{% endfor %}{{ message.content }}{% "
           "endfor %}",
       })
    EXPECT_EQ(form_of(source), ContentForm::Text) << source;
  EXPECT_EQ(form_of("{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
                    "{% for c in m.content %}{{ c.text }}{% endfor %}{% endif %}{% endfor %}"),
            ContentForm::Either);
  EXPECT_EQ(form_of("{% for m in messages %}{% for c in m.content %}{{ c.text }}{% endfor %}{% endfor %}"),
            ContentForm::Parts);
}

std::string served(const char* messages, ContentForm form) {
  return served_messages(Json::parse(messages), form).dump();
}

TEST(ServedMessages, PartsOfTextAreJoinedAsInVllm) {
  const char* parts =
      R"([{"role":"user","content":[{"type":"text","text":"What is "},{"type":"input_text","text":""},"this?"]}])";
  EXPECT_EQ(served(parts, ContentForm::Text), R"([{"role":"user","content":"What is \nthis?"}])");
  EXPECT_EQ(
      served(parts, ContentForm::Either),
      R"([{"role":"user","content":[{"type":"text","text":"What is "},{"type":"text","text":""},{"type":"text","text":"this?"}]}])");
  EXPECT_EQ(served(R"([{"role":"tool","content":[{"type":"text","text":"a"}]}])", ContentForm::Either),
            R"([{"role":"tool","content":"a"}])");
  EXPECT_EQ(served(R"([{"role":"user","content":"a"}])", ContentForm::Parts),
            R"([{"role":"user","content":[{"type":"text","text":"a"}]}])");
  EXPECT_EQ(served(R"([{"role":"user","content":[]},{"role":"user","content":null}])", ContentForm::Text),
            R"([{"role":"user","content":""},{"role":"user","content":null}])");
}

std::string refusal(const char* messages) {
  try {
    return served(messages, ContentForm::Text);
  } catch (const Error& e) {
    return e.what();
  }
}

TEST(ServedMessages, PartsThatATemplateDoesNotTakeAreRefused) {
  EXPECT_EQ(refusal(R"([{"role":"user","content":[{"type":"video","video":"a"}]}])"),
            "messages[0]: a part of the content is of type 'video', but the chat template takes texts only");
  EXPECT_EQ(refusal(R"([{"role":"user","content":[5]}])"),
            "messages[0]: a part of the content is number, but the chat template takes texts only");
}

std::string with_arguments(const std::string& arguments) {
  return R"([{"role":"assistant","tool_calls":[{"function":{"name":"f")" + arguments + "}}]}]";
}

TEST(ServedMessages, ArgumentsOfToolCallsAreObjects) {
  const auto arguments = [](const std::string& given) { return refusal(with_arguments(given).c_str()); };
  for (const char* given : {R"(,"arguments":"{\"city\": \"Paris\"}")", R"(,"arguments":{"city":"Paris"})"})
    EXPECT_EQ(arguments(given), with_arguments(R"(,"arguments":{"city":"Paris"})"));
  for (const char* given : {"", R"(,"arguments":null)", R"(,"arguments":"")", R"(,"arguments":"{}")"})
    EXPECT_EQ(arguments(given), with_arguments(R"(,"arguments":{})")) << given;
  EXPECT_EQ(arguments(R"(,"arguments":"[1]")"),
            "messages[0]: tool_calls[0].function.arguments: is the JSON of array, expected that of an object");
  EXPECT_EQ(arguments(R"(,"arguments":5)"),
            "messages[0]: tool_calls[0].function.arguments: is number, expected an object");
  EXPECT_TRUE(arguments(R"(,"arguments":"{city}")")
                  .starts_with("messages[0]: tool_calls[0].function.arguments: not valid JSON at line 1"));
  EXPECT_EQ(refusal(R"([{"role":"assistant","content":"a","tool_calls":[]}])"),
            R"([{"role":"assistant","content":"a"}])");
  EXPECT_EQ(refusal(R"([{"role":"user","tool_calls":[]}])"), R"([{"role":"user","tool_calls":[]}])");
}

Tokenizer bytes() {
  Json vocab = Json::object();
  for (int c = 0x21; c < 0x7F; ++c) vocab[std::string(1, static_cast<char>(c))] = c - 0x21;
  vocab["\xC4\xA0"] = 0x7F - 0x21;
  vocab["\xC4\x8A"] = 0x80 - 0x21;
  return Tokenizer(Json{{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}},
                        {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}}}});
}

TokenizedSet fed(const std::string& line, const char* source) {
  const Tokenizer t = bytes();
  const ChatTemplate chat(source);
  return tokenize_prompts(parse_prompts(line, "p.jsonl"), &t, &chat);
}

TEST(TokenizePrompts, NoListOfPythonEntersAPrompt) {
  const std::string parts =
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]})";
  EXPECT_EQ(fed(parts, kPlain).prompts[0].text, "[a\nb]");
  try {
    fed(parts,
        "{% for c in messages[0].content %}{% endfor %}{% for m in messages %}{% for c in m.content %}{% endfor %}"
        "{{ m.content }}{% endfor %}");
    ADD_FAILURE() << "accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("writes the parts of a content as Python prints them"), std::string::npos)
        << e.what();
  }
}

TEST(TokenizePrompts, ArgumentsThatPythonPrintsAreNoted) {
  const std::string call =
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{\"x\": 1}"}}]}]})";
  const TokenizedSet printed =
      fed(call, "{% for m in messages %}{% for t in m.tool_calls %}{{ t.function.arguments }}{% endfor %}{% endfor %}");
  EXPECT_EQ(printed.prompts[0].text, "{'x': 1}");
  ASSERT_EQ(notes_on(printed).size(), 1u);
  EXPECT_TRUE(notes_on(printed)[0].starts_with("in 1 chat(s) the chat template writes arguments"))
      << notes_on(printed)[0];
  const TokenizedSet json = fed(
      call,
      "{% for m in messages %}{% for t in m.tool_calls %}{{ t.function.arguments|tojson }}{% endfor %}{% endfor %}");
  EXPECT_EQ(json.prompts[0].text, R"({"x": 1})");
  EXPECT_TRUE(notes_on(json).empty());
}

// Telling messages apart takes a time that grows with the square of their number.
TEST(TokenKinds, OfManyMessagesAreGivenUpAndSaid) {
  std::string messages;
  for (int i = 0; i < 4000; ++i)
    messages += std::string(i ? "," : "") + R"({"role":")" + (i % 2 ? "assistant" : "user") + R"(","content":"a"})";
  const TokenizedSet many = fed("{\"messages\": [" + messages + "]}", kPlain);
  ASSERT_EQ(notes_on(many).size(), 1u);
  EXPECT_TRUE(notes_on(many)[0].starts_with("1 chat(s) have too many messages")) << notes_on(many)[0];
  const std::vector<uint8_t>& kinds = many.prompts[0].kinds;
  EXPECT_EQ(role_of_kind(kinds.front()), static_cast<size_t>(TokenRole::User));
  EXPECT_EQ(role_of_kind(kinds[kinds.size() - 2]), static_cast<size_t>(TokenRole::Other));
}

TEST(TokenizePrompts, StopsBehindTheFirst) {
  TokenizeOptions options;
  options.vocab_size = 9;
  const PromptSet set =
      parse_prompts("{\"input_ids\": [1, 2], \"weight\": 2}\n{\"input_ids\": [3]}\n{\"input_ids\": [99]}\n", "p.jsonl");
  EXPECT_THROW(tokenize_prompts(set, nullptr, nullptr, options), Error);
  options.max_prompts = 2;
  EXPECT_EQ(tokenize_prompts(set, nullptr, nullptr, options).prompts.size(), 2u);
  options.max_prompts = 0;
  options.max_tokens = 3;
  EXPECT_EQ(tokenize_prompts(set, nullptr, nullptr, options).prompts.size(), 1u) << "one prompt at least";
}

TEST(PlainChats, SayWhatTheMessagesSay) {
  PromptSet set = parse_prompts(
      R"({"id": "c", "messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}], "tools": []})"
      "\n{\"id\": \"t\", \"text\": \"c\"}\n",
      "p.jsonl");
  make_chats_plain(set);
  EXPECT_EQ(set.records[0].kind, PromptKind::Text);
  EXPECT_EQ(set.records[0].id, "c");
  EXPECT_EQ(set.records[0].text, "a\nb");
  EXPECT_EQ(set.records[0].canonical, R"({"text":"a\nb"})");
  EXPECT_EQ(set.records[1].text, "c");
  ASSERT_EQ(set.notes.size(), 1u);
  EXPECT_NE(set.notes[0].find("what 1 of the 2 shipped prompts say in messages is fed as raw text"), std::string::npos);
}

}  // namespace
}  // namespace kvcal
