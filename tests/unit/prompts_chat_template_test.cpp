#include <gtest/gtest.h>

#include <fstream>

#include "jinja/interpreter.h"
#include "jinja/parser.h"
#include "prompts/chat_template.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;
const fs::path kData = fs::path(KVCAL_SOURCE_DIR) / "tests/unit/data/text";
constexpr int64_t kDate = 1785067200;

std::string render(const std::string& text, const Json& variables = Json::object(), const jinja::Limits& limits = {}) {
  std::vector<std::pair<std::string, jinja::Value>> names;
  for (const auto& [name, value] : variables.items()) names.emplace_back(name, jinja::Value::from_json(value));
  return jinja::render(jinja::parse_template(text), names, limits, kDate);
}

std::string error_of(const std::string& text, const Json& variables = Json::object(),
                     const jinja::Limits& limits = {}) {
  try {
    return "no error: " + render(text, variables, limits);
  } catch (const Error& e) {
    return e.what();
  }
}

// The text, or "error: ..." where the reference's cases expect none.
template <class Render>
std::string outcome(Render&& render_case) {
  try {
    return render_case();
  } catch (const Error& e) {
    return std::string("error: ") + e.what();
  }
}

TEST(Jinja, EveryConstructEqualsTheReference) {
  const Json golden = read_json_file(kData / "templates.json");
  size_t n = 0;
  for (const Json& c : golden["cases"]) {
    const std::string name = c["name"], text = c["template"];
    const Json& variables = c.contains("variables") ? c["variables"] : golden["variables"];
    if (c.contains("error"))
      EXPECT_THROW(render(text, variables), Error) << name << ": the reference says " << c["error"];
    else
      EXPECT_EQ(outcome([&] { return render(text, variables); }), c["text"].get<std::string>()) << name << ": " << text;
    ++n;
  }
  EXPECT_GT(n, 400u);
}

TEST(ChatTemplate, EveryShapeEqualsTheReference) {
  const Json golden = read_json_file(kData / "chats.json", {.keep_large_integers = true});
  const auto special = golden["special"].get<std::map<std::string, std::string>>();
  for (const Json& c : golden["cases"]) {
    const std::string shape = c["shape"], name = c["chat"];
    const Json& chat = golden["chats"][name];
    const ChatTemplate t(golden["shapes"][shape].get<std::string>());
    ChatInput input;
    input.messages = chat["messages"];
    input.tools = chat["tools"];
    input.add_generation_prompt = chat["add_generation_prompt"];
    input.extra = chat["extra"];
    input.unix_seconds = golden["date"].get<int64_t>();
    if (c.contains("error"))
      EXPECT_THROW(t.render(input, special), Error) << shape << ", " << name;
    else
      EXPECT_EQ(outcome([&] { return t.render(input, special); }), c["text"].get<std::string>())
          << shape << ", " << name;
  }
}

TEST(Jinja, ErrorsAreOneShortLineWhateverTheTemplateSays) {
  EXPECT_EQ(error_of("{{ raise_exception('a\\nb\\x1b') }}"), "line 1: the template raises: a\\x0ab\\x1b");
  const std::string name = "'x\ny'";
  for (const std::string& source : std::initializer_list<std::string>{
           "{{ 'a'.split(**{" + name + ": 1}) }}",
           "{% macro f(a) %}{% endmacro %}{{ f(**{" + name + ": 1}) }}",
           "{% macro f(a) %}{% endmacro %}{{ f(1, **{'a': 1, " + name + ": 2}) }}",
           "{{ namespace(**{'_' ~ " + name + ": 1}) }}",
           "{{ '%\n' % 1 }}",
           "{{ '{:\n}'.format('a') }}",
           "{{ {} | tojson(**{" + name + ": 1}) }}",
           "{{ raise_exception('long ' * 100000) }}",
           "{{ " + std::string(100000, 'n') + ".x }}",
           "{% set x | filter %}{{ " + std::string(100000, 'n') + " }}{% endset %}",
           "{% " + std::string(100000, 'n') + " %}",
       }) {
    const std::string message = error_of(source);
    EXPECT_EQ(message.find("line "), 0u) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 4096u) << source.substr(0, 60);
  }
}

TEST(Jinja, ErrorsNameLineAndConstruct) {
  const Json none = Json::object();
  EXPECT_EQ(error_of("a\n{{ x.y }}"), "line 2: 'x' is undefined");
  EXPECT_EQ(error_of("\n\n{{ raise_exception('No system role') }}"), "line 3: the template raises: No system role");
  EXPECT_NE(error_of("{{ 1 | tojsn }}").find("filter 'tojsn'; did you mean 'tojson'?"), std::string::npos);
  EXPECT_NE(error_of("{% block a %}{% endblock %}").find("line 1: unknown or unsupported tag 'block'"),
            std::string::npos);
  EXPECT_NE(error_of("{{ 1 is odder }}").find("test 'odder'; did you mean 'odd'?"), std::string::npos);
  EXPECT_NE(error_of("{{ 'a'.swapcase() }}").find("method 'swapcase' of str is not supported"), std::string::npos);
  EXPECT_NE(error_of("{{ lipsum() }}").find("function 'lipsum' is not supported"), std::string::npos);
  EXPECT_NE(error_of("{{ [1].append(2) }}").find("access to attribute 'append' of 'list' object is unsafe"),
            std::string::npos);
  EXPECT_NE(error_of("{{ 'abc").find("line 1: string literal without an end"), std::string::npos);
  EXPECT_NE(error_of("{{ (1 ] }}").find("unexpected ']', expected ')'"), std::string::npos);
  EXPECT_NE(error_of("x\n{% if a %}").find("{% if %} has no {% endif %}"), std::string::npos);
  EXPECT_NE(error_of("{{ 9223372036854775807 + 1 }}").find("integer overflow in +"), std::string::npos);
  EXPECT_NE(error_of("{{ range }}").find("printing a function"), std::string::npos);
}

// What the reference computes and this interpreter does not.
TEST(Jinja, NumbersOfOtherKindsAreNotComputedWith) {
  for (const char* sum :
       {"{{ 12345678901234567890 + 1 }}", "{{ 1 - 12345678901234567890 }}", "{{ 12345678901234567890 // 7 }}",
        "{{ [12345678901234567890]|sum }}", "{{ 12345678901234567890 is even }}"})
    EXPECT_NE(error_of(sum).find("on integer 12345678901234567890: integers of more than 64 bits are printed and"),
              std::string::npos)
        << error_of(sum);
  EXPECT_NE(error_of("{{ '%x' % 12345678901234567890 }}").find("printing integer 12345678901234567890 in base 16"),
            std::string::npos);
  EXPECT_NE(error_of("{{ (-8) ** 0.5 }}").find("is a complex number, which is not supported"), std::string::npos);
  EXPECT_NE(error_of("{{ range(12345678901234567890) }}").find("is 12345678901234567890, more than 64 bits"),
            std::string::npos);
}

TEST(Jinja, RunawayTemplatesAreStopped) {
  EXPECT_NE(error_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}").find("macros call each other deeper than"),
            std::string::npos);
  jinja::Limits few;
  few.max_steps = 10'000'000;  // of those that are allowed: sanitizers take minutes for all
  EXPECT_NE(
      error_of("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", Json::object(), few)
          .find("steps"),
      std::string::npos);
  EXPECT_NE(
      error_of("{% set n = namespace(s='aaaaaaaa') %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}")
          .find("bytes"),
      std::string::npos);
  EXPECT_NE(error_of("{{ 'a' * 9999999999999 }}").find("bytes"), std::string::npos);
  EXPECT_NE(error_of("{{ [0] * 9999999999999 }}").find("bytes"), std::string::npos);
  EXPECT_NE(error_of("{% set n = namespace(l=[]) %}{% for i in range(9999) %}{% set n.l = [n.l] %}{% endfor %}")
                .find("nested deeper"),
            std::string::npos);
  EXPECT_NE(error_of("{% for x in t recursive %}{{ loop(t) }}{% endfor %}", {{"t", {1}}}).find("recursive loop deeper"),
            std::string::npos);
  EXPECT_NE(error_of("{{ " + std::string(2000, '(') + "1" + std::string(2000, ')') + " }}").find("nested deeper"),
            std::string::npos);
  EXPECT_NE(error_of("{{ 1" + std::string(4000, '+') + "1 }}").find("nested deeper"), std::string::npos);
  std::string chain = "{{ 1";
  for (int i = 0; i < 2400; ++i) chain += "+1";
  EXPECT_NE(error_of(chain + " }}").find("inside each other"), std::string::npos);
  EXPECT_NE(error_of("{{ range(1000000) }}").find("range longer than"), std::string::npos);
  jinja::Limits small;
  small.max_output_bytes = 100;
  EXPECT_NE(error_of("{{ 'a' * 60 }}{{ 'a' * 60 }}", Json::object(), small).find("larger than 100 bytes"),
            std::string::npos);
}

TEST(Jinja, KeptLoopsAndMacrosStayValid) {
  // A namespace keeps a loop, its method and a macro of an inner scope beyond their lives.
  EXPECT_EQ(render("{% set n = namespace() %}{% for x in [1, 2] %}{% macro m() %}{{ x }}{% endmacro %}"
                   "{% set n.m = m %}{% set n.l = loop %}{% set n.c = loop.changed %}{% endfor %}"
                   "{{ n.m() }}{{ n.l.length }}{{ n.c(n.l) }}{% set n.self = n %}"),
            "22True");
  EXPECT_NE(
      error_of("{% set n = namespace() %}{% for x in [1] recursive %}{% set n.l = loop %}{% endfor %}{{ n.l([1]) }}")
          .find("not marked 'recursive'"),
      std::string::npos);
}

TEST(Jinja, ClockIsTheOneGiven) {
  EXPECT_EQ(render("{{ strftime_now('%d %B %Y, %a %b %H:%M:%S %j %p %y %-d') }}"),
            "26 July 2026, Sun Jul 12:00:00 207 PM 26 26");
}

ChatInput one_message() {
  ChatInput in;
  in.messages = Json::parse(R"([{"role": "user", "content": "hi", "name": null}])");
  return in;
}

TEST(ChatTemplate, PreparesMessagesAsTheReference) {
  const ChatTemplate keys(
      "{% for k, v in messages[0].items() %}{{ k }}={{ v }};{% endfor %}{{ tools }}{{ documents }}");
  ChatInput in = one_message();
  EXPECT_EQ(keys.render(in), "role=user;content=hi;NoneNone");
  in.messages[0]["reasoning"] = "r";
  in.tools = Json::array();
  EXPECT_EQ(keys.render(in), "thinking=r;role=user;content=hi;reasoning=r;reasoning_content=r;[]None");
  in.messages = Json::array();
  EXPECT_THROW(keys.render(in), Error);
}

TEST(ChatTemplate, ExtraVariablesWinOverSpecialTokens) {
  ChatInput in = one_message();
  in.extra = Json::parse(R"({"bos_token": "B", "x": 1})");
  EXPECT_EQ(ChatTemplate("{{ bos_token }}{{ eos_token }}{{ x }}").render(in, {{"bos_token", "b"}, {"eos_token", "e"}}),
            "Be1");
}

TEST(ChatTemplate, IsFoundWhereFoldersKeepIt) {
  const fs::path folder = fs::path(testing::TempDir()) / "kvcal_text_templates";
  fs::remove_all(folder);
  fs::create_directories(folder);
  EXPECT_FALSE(ChatTemplate::load(folder).has_value());
  ChatInput in = one_message();
  std::ofstream(folder / "chat_template.json") << R"({"chat_template": "J"})";
  EXPECT_EQ(ChatTemplate::load(folder)->render(in), "J");
  std::ofstream(folder / "tokenizer_config.json")
      << R"({"chat_template": [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}]})";
  EXPECT_EQ(ChatTemplate::load(folder)->render(in), "D");
  in.tools = Json::array();
  EXPECT_EQ(ChatTemplate::load(folder)->render(in), "T");
  std::ofstream(folder / "chat_template.jinja") << "X\n";
  EXPECT_EQ(ChatTemplate::load(folder)->render(in), "X");
  std::ofstream(folder / "chat_template.jinja") << "a\n{% if %}";
  try {
    ChatTemplate::load(folder);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("chat_template.jinja: line 2: expected an expression"), std::string::npos)
        << e.what();
  }
  fs::remove_all(folder);
}

TEST(ChatTemplate, DatesAreRead) {
  EXPECT_EQ(parse_date("2026-07-26"), kDate - 12 * 3600);
  EXPECT_EQ(parse_date("2026-07-26T12:00:00"), kDate);
  EXPECT_EQ(parse_date("1785067200"), kDate);
  for (const char* bad : {"", "2026-13-01", "2026-02-30", "26.7.2026", "2026-07-26T25:00:00", "-5", "12x"})
    EXPECT_THROW(parse_date(bad), Error) << bad;
}

#ifndef KVCAL_SANITIZED  // all steps, five times: minutes there
// Else a set takes a second for each of its chats.
TEST(ChatTemplate, IsNotRunForEverWhereItFails) {
  const ChatTemplate slow("{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}");
  ChatInput chat;
  chat.messages = Json::array({{{"role", "user"}, {"content", "x"}}});
  for (int i = 0; i < 4; ++i)
    EXPECT_NE(outcome([&] { return slow.render(chat); }).find(" steps; does it loop"), std::string::npos) << i;
  EXPECT_NE(outcome([&] { return slow.render(chat); }).find("is not run again"), std::string::npos);
}
#endif

}  // namespace
}  // namespace kvcal
