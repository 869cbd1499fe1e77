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
      {"a: [1, 2\n", "line 2 is no YAML: did not find expected ',' or ']'"},
      {"a: \"b\n", "line 2 is no YAML: found unexpected end of stream"},
      {"a: b: c\n", "line 1 is no YAML: mapping values are not allowed in this context"},
      {"a: {b}\nc\n", "line 3 is no YAML: could not find expected ':'"},
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
