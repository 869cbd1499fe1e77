// Every byte outside of the member that is set stays as its author wrote it.
#include <gtest/gtest.h>

#include "export/json_edit.h"
#include "harness/message_of.h"

namespace kvcal {
namespace {

const std::vector<std::string> kRoot;
const std::vector<JsonMember> kScheme = {{"kv", Json{{"bits", 8}, {"type", "float"}}}};

std::string set(const std::string& text, const std::vector<std::string>& path = kRoot,
                const std::vector<JsonMember>& members = kScheme) {
  return set_json_members(text, path, members);
}

TEST(JsonEdit, AppendsInTheAuthorsStyle) {
  EXPECT_EQ(set("{\n  \"a\": [1,\n2],\n  \"b\" : 1e6\n}\n"),
            "{\n  \"a\": [1,\n2],\n  \"b\" : 1e6,\n  \"kv\": {\n    \"bits\": 8,\n    \"type\": \"float\"\n  }\n}\n");
  EXPECT_EQ(set("{\n\t\"a\": 1\n}"), "{\n\t\"a\": 1,\n\t\"kv\": {\n\t\t\"bits\": 8,\n\t\t\"type\": \"float\"\n\t}\n}");
  EXPECT_EQ(
      set("{\r\n    \"a\": 1\r\n}\r\n"),
      "{\r\n    \"a\": 1,\r\n    \"kv\": {\r\n        \"bits\": 8,\r\n        \"type\": \"float\"\r\n    }\r\n}\r\n");
}

TEST(JsonEdit, OneLineStaysOneLine) {
  EXPECT_EQ(set("{\"a\": 1}"), "{\"a\": 1, \"kv\": {\"bits\":8,\"type\":\"float\"}}");
  EXPECT_EQ(set("{\"a\":1}\n"), "{\"a\":1,\"kv\":{\"bits\":8,\"type\":\"float\"}}\n");
}

TEST(JsonEdit, ReplacesInItsPlace) {
  EXPECT_EQ(set("{ \"kv\" :\n null , \"a\":{\"kv\":2} }"),
            "{ \"kv\" :\n {\"bits\":8,\"type\":\"float\"} , \"a\":{\"kv\":2} }");
  EXPECT_EQ(set("{\n  \"kv\": {\"x\": [\"}\", \"\\\"\"]},\n  \"z\": 1\n}"),
            "{\n  \"kv\": {\n    \"bits\": 8,\n    \"type\": \"float\"\n  },\n  \"z\": 1\n}");
}

TEST(JsonEdit, GoesDownAPath) {
  EXPECT_EQ(set("{\n  \"q\": {\n    \"m\": \"fp8\"\n  },\n  \"kv\": 1\n}", {"q"}, {{"kv", 2}}),
            "{\n  \"q\": {\n    \"m\": \"fp8\",\n    \"kv\": 2\n  },\n  \"kv\": 1\n}");
  EXPECT_EQ(set("{\n  \"q\": {\n    \"r\": {}\n  }\n}", {"q", "r"}, {{"kv", 2}}),
            "{\n  \"q\": {\n    \"r\": {\n      \"kv\": 2\n    }\n  }\n}");
  EXPECT_EQ(message_of([] { set("{\"q\": 1}", {"q"}); }), "has no object 'q'");
  EXPECT_EQ(message_of([] { set("{\"q\": {}}", {"q", "r"}); }), "has no object 'q.r'");
}

TEST(JsonEdit, EmptyObjects) {
  EXPECT_EQ(set("{}", kRoot, {{"a", 1}, {"b", 2}}), "{\n  \"a\": 1,\n  \"b\": 2\n}");
  EXPECT_EQ(set("{\"w\": {}}", {"w"}, {{"a", 1}, {"b", 2}}), "{\"w\": {\"a\": 1, \"b\": 2}}");
}

TEST(JsonEdit, StringsAreNotStructure) {
  EXPECT_EQ(set("{\"a\": \"}, \\\"kv\\\": 1\", \"b\": [\"]\", {\"c\": \"{\"}]}", kRoot, {{"kv", 1}}),
            "{\"a\": \"}, \\\"kv\\\": 1\", \"b\": [\"]\", {\"c\": \"{\"}], \"kv\": 1}");
  // The same key in another spelling.
  EXPECT_EQ(set("{\"k\\u0076\": 0}", kRoot, {{"kv", 1}}), "{\"k\\u0076\": 1}");
}

TEST(JsonEdit, KeepsWhatIsNoJson) {
  EXPECT_EQ(set("{\"a\": NaN, \"b\": -Infinity}", kRoot, {{"kv", 1}}), "{\"a\": NaN, \"b\": -Infinity, \"kv\": 1}");
}

TEST(JsonEdit, SeveralAtOnce) {
  EXPECT_EQ(set("{\n \"b\": 1,\n \"a\": 2\n}", kRoot, {{"z", 9}, {"a", 8}, {"b", 7}, {"y", 6}}),
            "{\n \"b\": 7,\n \"a\": 8,\n \"z\": 9,\n \"y\": 6\n}");
}

std::string without(const std::string& text, const std::vector<std::string>& keys) {
  const std::vector<std::string> path = {"m"};
  return remove_json_members(text, path, keys);
}

TEST(JsonEdit, RemovesMembersWithTheirCommas) {
  const std::string text =
      "{\n  \"m\": {\n    \"a\": 1,\n    \"b\": [2, 3],\n    \"c\": \"x,y\"\n  },\n  \"n\": 1\n}\n";
  const auto lines = [](const std::string& inner) { return "{\n  \"m\": {" + inner + "},\n  \"n\": 1\n}\n"; };
  EXPECT_EQ(without(text, {"a"}), lines("\n    \"b\": [2, 3],\n    \"c\": \"x,y\"\n  "));
  EXPECT_EQ(without(text, {"b"}), lines("\n    \"a\": 1,\n    \"c\": \"x,y\"\n  "));
  EXPECT_EQ(without(text, {"c", "b"}), lines("\n    \"a\": 1\n  "));
  EXPECT_EQ(without(text, {"a", "c"}), lines("\n    \"b\": [2, 3]\n  "));
  EXPECT_EQ(without(text, {"a", "b"}), lines("\n    \"c\": \"x,y\"\n  "));
  EXPECT_EQ(without(text, {"a", "b", "c", "d"}), lines(""));
  EXPECT_EQ(without(text, {"n", "d"}), text);
  EXPECT_EQ(without("{\"m\":{}}", {"a"}), "{\"m\":{}}");
  EXPECT_THROW(without("{\"n\":{}}", {"a"}), Error);
}

TEST(JsonEdit, RefusesWhatIsNotSound) {
  EXPECT_NE(message_of([] { set("{\"kv\": 1, \"a\": 2, \"kv\": 3}"); }).find("'kv' appears twice"), std::string::npos);
  EXPECT_NE(message_of([] { set("{\"a\": 1,}"); }).find("not valid JSON"), std::string::npos);
  EXPECT_EQ(message_of([] { set("[1]"); }), "is JSON but not an object");
  EXPECT_NE(message_of([] { set(""); }).find("not valid JSON"), std::string::npos);
}

}  // namespace
}  // namespace kvcal
