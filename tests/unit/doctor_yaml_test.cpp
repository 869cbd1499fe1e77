// YAML as people write it for containers, templates of charts among it; and what is broken or hostile.
#include <gtest/gtest.h>

#include "doctor/yaml.h"
#include "harness/message_of.h"

namespace kvcal {
namespace {

TEST(Yaml, of_all_kinds) {
  const auto json = [](const char* text) {
    std::string all;
    for (const Json& document : parse_yaml(text)) all += document.dump();
    return all;
  };
  EXPECT_EQ(json("a: 1 # c\n'b': \"x: y\\n\"\nc:\n- - 1\n  - 2\n- d: e\n  f:\n-\n"),
            R"({"a":"1","b":"x: y\n","c":[["1","2"],{"d":"e","f":null},null]})");
  EXPECT_EQ(json("a: [1, 'it''s', {b: c, d}, # x\n  [e]]\n--- \nb: >-\n  x\n  y\nc: |\n   p\n    q\nd: p\n  q\n"),
            R"({"a":["1","it's",{"b":"c","d":null},["e"]]}{"b":"x y","c":"p\n q\n","d":"p q"})");
  EXPECT_EQ(json("a: &x {b: c}\nd: *x\ne: &y [*x]\nf: {g: *y}\nh:\n  <<: [*x]\n  i: !t j\n"),
            R"({"a":{"b":"c"},"d":{"b":"c"},"e":[{"b":"c"}],"f":{"g":[{"b":"c"}]},"h":{"b":"c","i":"j"}})");
  EXPECT_EQ(json("{{- if .a }}\na: {{ .b }}/it's # c\n{{- end }}\nd:\n  - {{ .e }}\n  - f={{ .g }}\nh: \"{{ .i }}\"\n"),
            R"({"a":"{{ .b }}/it's","d":["{{ .e }}","f={{ .g }}"],"h":"{{ .i }}"})");
  EXPECT_EQ(json("a: &a [&b {c: &d e}]\nf: [*d, *b]\n---\n---\ng: null\n"),
            R"({"a":[{"c":"e"}],"f":["e",{"c":"e"}]}{"g":null})");
}

TEST(Yaml, with_templates_where_values_and_texts_stand) {
  const auto json = [](const char* text) { return parse_yaml(text).at(0).dump(); };
  EXPECT_EQ(json("a:  {{ .b }}\nc:\n-   {{ .d }}\n-  {{ .e }} # x\n"),
            R"({"a":"{{ .b }}","c":["{{ .d }}","{{ .e }}"]})");
  EXPECT_EQ(json("a: \"tok: {{ .x }}\"\nb: 'it''s: {{ .y }}'\nc: [\"d\", \"{% for %}User: {{ m.content }}\"]\n"),
            R"({"a":"tok: {{ .x }}","b":"it's: {{ .y }}","c":["d","{% for %}User: {{ m.content }}"]})");
  EXPECT_EQ(json("a: [\"b\n  User: {{ .x }}\", c] # it's 'd\ne: the 'n\nf: {{ .y }}\n"),
            R"({"a":["b User: {{ .x }}","c"],"e":"the 'n","f":"{{ .y }}"})");
  EXPECT_EQ(json("a: |-\n  'b: {{ .x }}\n{{ if .y }}\n  c\nd: {{ .z }}\n"),
            R"({"a":"'b: {{ .x }}\n\nc","d":"{{ .z }}"})");
  EXPECT_EQ(json("- a: >\n    b\n  c: {{ .x }}\n"), R"([{"a":"b\n","c":"{{ .x }}"}])");
  EXPECT_EQ(json("a: b # caf\xe9\nc: \"\xff\"\n"), "{\"a\":\"b\",\"c\":\"\xef\xbf\xbd\"}");
}

std::string repeated(const char* text, int n) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

TEST(Yaml, that_is_broken_or_hostile_is_refused_in_a_line) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb +=
        "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + repeated((last + ", ").c_str(), 9) + last + "]\n";
  }
  std::string keys;
  for (int i = 0; i < 2000; ++i) keys += "k" + std::to_string(i) + ": 1\n";
  const std::pair<std::string, const char*> texts[] = {
      {"a: *b\n", "line 1 has an alias without its anchor"},
      {"a: [1, 2\n", "line 1 is no YAML: did not find expected ',' or ']'"},
      {"a: \"b\n", "line 1 is no YAML: found unexpected end of stream"},
      {"a: b: c\n", "line 1 is no YAML: mapping values are not allowed in this context"},
      {"a: {b}\nc\n", "line 2 is no YAML: could not find expected ':'"},
      {"a: !e!f x\n", "line 1 is no YAML: found undefined tag handle"},
      {repeated("# x\n%TAG !a! b:\r", 40) + "---\na: b\n", "line 34 is one %TAG too many"},
      {"a:\n- \x01\n", "line 2 is no YAML: control characters are not allowed"},
      {"a: {[b]: c}\n", "line 1 has a key that is no text"},
      {repeated("- ", 100), "line 1 is nested too deeply"},
      {"a: " + repeated("[", 100000), "line 1 is nested too deeply"},
      {keys, "line 1025 is one key too many"},
      {bomb, "line 6 makes more of aliases than a file of containers would"}};
  for (const auto& [text, message] : texts)
    EXPECT_EQ(message_of([&, &given = text] { parse_yaml(given); }), message) << text.substr(0, 200);
}

}  // namespace
}  // namespace kvcal
