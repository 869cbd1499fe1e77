// JSON from strangers: what is refused and how it is said, non-finite numbers, typed access, canonical text.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>

#include "base/json.h"
#include "base/read_file.h"

namespace kvcal {
namespace {

std::string error_of(std::string_view text, const JsonLimits& limits = {}) {
  try {
    parse_json(text, limits);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Json, KeepsOrderAndTypes) {
  const Json json = parse_json(R"( {"z": 1, "a": [true, null, -2, 2.5, "x\u00e9\ud83d\ude00"], "e": {}} )");
  EXPECT_EQ(json.dump(), "{\"z\":1,\"a\":[true,null,-2,2.5,\"x\u00e9\U0001F600\"],\"e\":{}}");
}

TEST(Json, LargeIntegersKeepTheirDigitsWhereWanted) {
  const JsonLimits keep{.keep_large_integers = true};
  const std::string text = R"([123456789012345678901234567890, -9223372036854775809, 18446744073709551615, 1e30, 1.5])";
  const Json json = parse_json(text, keep);
  EXPECT_EQ(large_integer_digits(json[0]), "123456789012345678901234567890");
  EXPECT_EQ(large_integer_digits(json[1]), "-9223372036854775809");
  EXPECT_TRUE(json[2].is_number_unsigned() && json[3].is_number_float() && json[4].is_number_float());
  EXPECT_EQ(canonical_json(json),
            "[123456789012345678901234567890,-9223372036854775809,18446744073709551615,1e+30,1.5]");
  EXPECT_TRUE(parse_json(text)[0].is_number_float());
  EXPECT_NE(error_of(std::string(400, '9'), keep).find("number out of range"), std::string::npos);
  const Json weight = parse_json(R"({"weight": 123456789012345678901234567890})", keep);
  try {
    get_int(weight, "weight");
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "key 'weight' is 123456789012345678901234567890, expected a whole number");
  }
}

TEST(Json, ScalarDocuments) {
  EXPECT_EQ(parse_json("3"), Json(3));
  EXPECT_EQ(parse_json("\"\""), Json(""));
  EXPECT_EQ(parse_json("\xEF\xBB\xBF{}"), Json::object()) << "a byte-order mark is harmless";
}

struct BadCase {
  const char* name;
  std::string text;
  std::string message;  // must be contained
};

class BadJson : public testing::TestWithParam<BadCase> {};

TEST_P(BadJson, IsRefusedWithReason) {
  const std::string message = error_of(GetParam().text);
  EXPECT_NE(message.find(GetParam().message), std::string::npos) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 600u);
}

std::string deep(int levels, const std::string& open, const std::string& close) {
  std::string text;
  for (int i = 0; i < levels; ++i) text += open;
  text += "1";
  for (int i = 0; i < levels; ++i) text += close;
  return text;
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BadJson,
    testing::Values(
        BadCase{"empty", "", "line 1, column 1"}, BadCase{"spaces", " \n ", "line 2"},
        BadCase{"open_object", "{\"a\": 1", "syntax error"}, BadCase{"open_string", "\"abc", "missing closing quote"},
        BadCase{"trailing_comma", "[1,]", "line 1, column 4"},
        BadCase{"trailing_text", "{} x", "expected end of input"},
        BadCase{"second_line", "{\"a\": 1,\n \"b\" 2}", "line 2, column 6"},
        BadCase{"duplicate", "{\"a\": 1, \"b\": 2, \"a\": 3}", "key 'a' appears twice"},
        BadCase{"duplicate_escaped", "{\"a\": 1, \"\\u0061\": 3}", "key 'a' appears twice"},
        BadCase{"duplicate_nested", "[{\"x\": {\"k\": 1, \"k\": 1}}]", "key 'k' appears twice"},
        BadCase{"deep_array", deep(129, "[", "]"), "nested deeper than 128"},
        BadCase{"deep_object", deep(129, "{\"a\":", "}"), "nested deeper than 128"},
        BadCase{"very_deep", std::string(1000000, '['), "nested deeper than 128"},
        BadCase{"nan", "{\"a\": NaN}", "line 1, column 7"}, BadCase{"infinity", "[Infinity]", "not valid JSON"},
        BadCase{"too_large_number", "[1e999]", "number out of range"},
        BadCase{"overlong_utf8", "\"\xC0\x80\"", "not valid JSON"},
        BadCase{"cut_utf8", "\"\xE2\x82\"", "not valid JSON"},
        BadCase{"surrogate_utf8", "\"\xED\xA0\x80\"", "not valid JSON"},
        BadCase{"lone_surrogate", "\"\\ud800\"", "surrogate"}, BadCase{"raw_control", "\"a\x01\"", "control character"},
        BadCase{"comment", "[1] // one", "not valid JSON"}, BadCase{"single_quotes", "{'a': 1}", "not valid JSON"},
        BadCase{"zero_byte", std::string("{}\0{", 4), "a zero byte"}, BadCase{"leading_zero", "[01]", "not valid JSON"},
        BadCase{"plus", "[+1]", "not valid JSON"},
        BadCase{"long_token", "[\"" + std::string(1 << 20, 'x'), "not valid JSON"}),
    [](const auto& bad) { return std::string(bad.param.name); });

TEST(Json, DepthLimitIsExact) { EXPECT_NO_THROW(parse_json(deep(128, "[", "]"))); }

TEST(Json, SizeAndValueLimits) {
  JsonLimits limits;
  limits.max_bytes = 4;
  EXPECT_EQ(error_of("[1,2]", limits), "JSON text has 5 bytes, expected at most 4");
  EXPECT_EQ(error_of("[12]", limits), "no error");
  limits = {};
  limits.max_values = 3;
  EXPECT_EQ(error_of("[1,2]", limits), "no error");
  EXPECT_NE(error_of("[1,2,3]", limits).find("more than 3 values"), std::string::npos);
}

TEST(Json, LargeObjectsTakeLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 300000; ++i) text += (i ? ",\"k" : "\"k") + std::to_string(i) + "\":" + std::to_string(i);
  text += "}";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_json(text).size(), 300000u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20)) << "quadratic would take minutes";
}

TEST(Json, BareNonFiniteNumbersWhereAllowed) {
  JsonLimits limits;
  limits.allow_non_finite = true;
  const Json json = parse_json(
      R"({"NaN": "NaN, \"Infinity\\", "a": [NaN,Infinity , -Infinity,1.5,-Infinity], "b": 0.0, "c":Infinity})", limits);
  EXPECT_EQ(json.begin().key(), "NaN");
  EXPECT_EQ(json["NaN"], "NaN, \"Infinity\\") << "words inside strings stay";
  EXPECT_TRUE(std::isnan(json["a"][0].get<double>()));
  EXPECT_EQ(json["a"][1].get<double>(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(json["a"][2].get<double>(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(json["a"][3], 1.5);
  EXPECT_EQ(json["a"][4].get<double>(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(json["b"], 0.0);
  EXPECT_EQ(json["c"].get<double>(), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(parse_json("NaN", limits).get<double>()));
  EXPECT_EQ(parse_json("-Infinity", limits).get<double>(), -std::numeric_limits<double>::infinity());
}

TEST(Json, NonFiniteWordsInWrongPlaces) {
  JsonLimits limits;
  limits.allow_non_finite = true;
  for (const char* text :
       {"[NaNNaN]", "[xNaN]", "{NaN: 1}", "[Infinity1]", "[1Infinity]", "[--Infinity]", "[+Infinity]", "[nan]",
        "[NaN Infinity]", "[1.Infinity]", "[1NaN]", "[eNaN]", "[1e-Infinity]"})
    EXPECT_NE(error_of(text, limits), "no error") << text;
}

TEST(Json, FloatObjectsOfTransformersFive) {
  JsonLimits limits;
  limits.allow_non_finite = true;
  const std::string text =
      R"({"t": [0.0, {"__float__": "Infinity"}], "n": {"__float__": "NaN"}, "o": {"__float__": "1"}})";
  const Json json = parse_json(text, limits);
  EXPECT_EQ(json["t"][1].get<double>(), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(json["n"].get<double>()));
  EXPECT_TRUE(json["o"].is_object());
  EXPECT_TRUE(parse_json(text)["n"].is_object()) << "only where allowed";
}

TEST(Json, TypedAccess) {
  const Json json = parse_json(
      R"({"i": 7, "f": 4096.0, "h": 2.5, "big": 18446744073709551615, "s": "x", "b": true, "n": null, "l": [1,2]})");
  EXPECT_EQ(get_int(json, "i"), 7);
  EXPECT_EQ(get_int(json, "f"), 4096) << "whole numbers written as floats";
  EXPECT_EQ(get_number(json, "i"), 7.0);
  EXPECT_EQ(get_string(json, "s"), "x");
  EXPECT_EQ(get_int_or(json, "n", 3), 3) << "null counts as absent";
  EXPECT_EQ(get_number_or(json, "zz", 0.5), 0.5);
  EXPECT_TRUE(get_bool_or(json, "b", false));
  EXPECT_EQ(get_string_or(json, "zz", "d"), "d");
  EXPECT_EQ(find_member(json, "n"), nullptr);
  EXPECT_EQ(find_member(Json(3), "n"), nullptr);
}

TEST(Json, TypedAccessMessages) {
  const Json json =
      parse_json(R"({"hidden": 7, "h": 2.5, "big": 18446744073709551615, "s": "x", "b": true, "n": null})");
  const auto message = [](auto f) -> std::string {
    try {
      f();
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message([&] { get_int(json, "h", "text_config."); }),
            "key 'text_config.h' is 2.5, expected a whole number");
  EXPECT_EQ(message([&] { get_int(json, "big"); }), "key 'big' is 18446744073709551615, expected a whole number");
  EXPECT_EQ(message([&] { get_int(json, "b"); }), "key 'b' is true, expected a whole number");
  EXPECT_EQ(message([&] { get_number(json, "s"); }), "key 's' is the string 'x', expected a number");
  EXPECT_EQ(message([&] { get_string(json, "hidden"); }), "key 'hidden' is 7, expected a string");
  EXPECT_EQ(message([&] { get_bool_or(json, "hidden", true); }), "key 'hidden' is 7, expected true or false");
  EXPECT_EQ(message([&] { get_int(json, "n"); }), "key 'n' is missing (null)");
  EXPECT_EQ(message([&] { get_int(json, "hiden"); }), "key 'hiden' is missing; is 'hidden' a misspelling of it?");
  EXPECT_EQ(message([&] { get_int(Json(3), "x"); }), "key 'x' is looked for in 3, expected an object");
}

TEST(Json, Canonical) {
  JsonLimits limits;
  limits.allow_non_finite = true;
  const Json json = parse_json(
      R"({"b": [1.0, 1, 1e0, -3, 0.1, 1e22, 18446744073709551615], "a": {"z": null, "y": NaN, "x": -Infinity},
                                   "A": "q\"\u00e9\n"})",
      limits);
  EXPECT_EQ(canonical_json(json),
            "{\"A\":\"q\\\"\u00e9\\n\",\"a\":{\"x\":\"-Infinity\",\"y\":\"NaN\",\"z\":null},"
            "\"b\":[1,1,1,-3,0.1,1e+22,18446744073709551615]}");
}

TEST(Json, Files) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "kvcal json ü";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "good.json") << "{\"a\": [1, 2]}";
  std::ofstream(folder / "bad.json") << "{\"a\": [1, 2}";
  EXPECT_EQ(read_json_file(folder / "good.json")["a"][1], 2);
  const auto message = [](const std::filesystem::path& path, JsonLimits limits = {}) -> std::string {
    try {
      read_json_file(path, limits);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(message(folder / "bad.json")
                .rfind(quoted((folder / "bad.json").string()) + ": not valid JSON at line 1, column 12", 0),
            0u)
      << message(folder / "bad.json");
  EXPECT_NE(message(folder / "none.json").find("cannot open: no such file or directory"), std::string::npos);
  EXPECT_NE(message(folder).find("is a folder, expected a file"), std::string::npos);
  EXPECT_NE(message("/dev/null").find("is not a regular file"), std::string::npos);
  JsonLimits small;
  small.max_bytes = 5;
  EXPECT_NE(message(folder / "good.json", small).find("has 13 bytes or more, expected at most 5"), std::string::npos);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kvcal
