// Frequencies against the reference framework's and against values worked out by hand (tests/arch/golden/rope.json).
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "model/config_reading.h"
#include "model/rope.h"

namespace kvcal {
namespace {

Json goldens() { return read_json_file(std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/arch/golden/rope.json"); }

RopeSpec spec_of(const Json& flat, int64_t served = 0) {
  Json config = {{"rope_parameters", flat}};
  config["max_position_embeddings"] = get_int_or(flat, "max_position_embeddings", 4096);
  if (served > 0) config[kServedPositions] = served;
  return read_rope(config, get_int(flat, "head_dim"), {});
}

TEST(Rope, frequencies_equal_the_reference_frameworks) {
  std::set<std::string> checked;
  const Json all = goldens();
  for (const Json& c : all.at("cases")) {
    const std::string type = c.at("config").at("rope_type");
    // dynamic follows the servers' fixed base, which the reference reaches at factor x length; servers ignore
    // longrope's attention_factor, so it is refused.
    if (type == "dynamic" && get_int_or(c, "seq_len", 0) != 8192) continue;
    if (type == "longrope" && c.at("config").contains("attention_factor")) continue;
    SCOPED_TRACE(c.at("name").get<std::string>());
    // The reference chooses longrope's list by the current length, servers by the longest they allow.
    const RopeSpec spec = spec_of(c.at("config"), type == "longrope" ? get_int_or(c, "seq_len", 1) : 0);
    const auto expected = c.at("inv_freq").get<std::vector<double>>();
    ASSERT_EQ(spec.inverse_frequency.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(spec.inverse_frequency[i], expected[i], 3e-7 * expected[i]) << "pair " << i;
    EXPECT_NEAR(spec.magnitude, c.at("magnitude").get<double>(), 1e-6);
    checked.insert(type);
  }
  EXPECT_EQ(checked, (std::set<std::string>{"default", "dynamic", "linear", "llama3", "longrope", "yarn"}));
}

TEST(Rope, frequencies_equal_hand_values) {
  int n = 0;
  const Json all = goldens();
  for (const Json& c : all.at("hand")) {
    if (!c.contains("inv_freq")) continue;
    SCOPED_TRACE(c.at("name").get<std::string>());
    const RopeSpec spec = spec_of(c.at("config"));
    for (const auto& [index, value] : c.at("inv_freq").items()) {
      EXPECT_NEAR(spec.inverse_frequency.at(std::stoul(index)), value.get<double>(), 1e-6 * value.get<double>());
      ++n;
    }
  }
  EXPECT_GT(n, 15);
}

// A head of 512 channels, a quarter of its pairs turning.
TEST(Rope, proportional_pairs_span_the_head_and_the_rest_stand_still) {
  const RopeSpec spec =
      spec_of({{"rope_type", "proportional"}, {"head_dim", 512}, {"rope_theta", 1e6}, {"partial_rotary_factor", 0.25}});
  EXPECT_EQ(spec.rotary_dim, 512);
  ASSERT_EQ(spec.inverse_frequency.size(), 256u);
  EXPECT_NEAR(spec.inverse_frequency[1], 0.947463526, 1e-7);
  EXPECT_NEAR(spec.inverse_frequency[63], 0.0333762469, 1e-8);
  for (size_t i = 64; i < 256; ++i) EXPECT_EQ(spec.inverse_frequency[i], 0.0f) << "pair " << i;
}

TEST(Rope, parameters_by_layer_kind_are_taken_apart) {
  const Json config = {{"max_position_embeddings", 64},
                       {"rope_parameters",
                        {{"sliding_attention", {{"rope_theta", 100.0}}},
                         {"full_attention", {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 5000.0}}}}}};
  const Json flat = {{"rope_theta", 100.0}};
  EXPECT_EQ(read_rope(*rope_config_of_kind(config, "sliding_attention"), 8, {}).inverse_frequency,
            read_rope(flat, 8, {}).inverse_frequency);
  EXPECT_NE(read_rope(*rope_config_of_kind(config, "full_attention"), 8, {}).inverse_frequency,
            read_rope(flat, 8, {}).inverse_frequency);
  EXPECT_FALSE(rope_config_of_kind(flat, "full_attention").has_value());
}

TEST(Rope, older_spellings_mean_the_same) {
  const Json modern = {{"rope_parameters", {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 5000.0}}}};
  const Json older = {{"rope_theta", 5000.0}, {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}};
  EXPECT_EQ(read_rope(modern, 64, {}).inverse_frequency, read_rope(older, 64, {}).inverse_frequency);
  const Json partial = {{"partial_rotary_factor", 0.25}, {"rope_scaling", nullptr}};
  EXPECT_EQ(read_rope(partial, 64, {}).rotary_dim, 16);
  EXPECT_EQ(read_rope(Json::object(), 256, {1e4, 0.25}).rotary_dim, 64);
}

TEST(Rope, mrope_sections_choose_the_axis_of_each_pair) {
  const auto axes = [](Json table, int64_t head_dim) {
    std::string s;
    for (const int a : read_rope({{"rope_parameters", table}}, head_dim, {}).axis) s += "THW"[a];
    return s;
  };
  EXPECT_EQ(axes({{"mrope_section", {11, 11, 10}}, {"mrope_interleaved", true}}, 64),
            "THWTHWTHWTHWTHWTHWTHWTHWTHWTHWTH");
  EXPECT_EQ(axes({{"type", "mrope"}, {"mrope_section", {2, 3, 3}}}, 16), "TTHHHWWW");
}

TEST(Rope, refusals_name_the_cause) {
  const auto message = [](const Json& table) -> std::string {
    try {
      read_rope({{"rope_parameters", table}}, 64, {});
      return "accepted";
    } catch (const Error& e) {
      return e.what();
    }
  };
  EXPECT_NE(message({{"rope_type", "yarm"}}).find("unknown rope_type 'yarm'; did you mean 'yarn'?"), std::string::npos);
  EXPECT_NE(message({{"rope_type", "longrope"}}).find("original_max_position_embeddings"), std::string::npos);
  const Json longrope = {{"rope_type", "longrope"}, {"original_max_position_embeddings", 64}};
  const auto with = [&](const char* key, const Json& value) {
    Json table = longrope;
    table[key] = value;
    return message(table);
  };
  EXPECT_NE(message(longrope).find("short_factor is not a list of 32 numbers"), std::string::npos);
  EXPECT_NE(with("short_factor", Json::array({1, 2})).find("not a list of 32"), std::string::npos);
  EXPECT_NE(with("short_factor", std::vector<int>(32, 0)).find("holds '0'"), std::string::npos);
  Json given = longrope;
  given["short_factor"] = std::vector<int>(32, 1);
  EXPECT_EQ(message(given), "accepted");
  given["attention_factor"] = 1.5;
  EXPECT_NE(message(given).find("longrope with attention_factor"), std::string::npos);
  EXPECT_NE(message({{"rope_type", "dynamic"}, {"alpha", -1.0}}).find("alpha"), std::string::npos);
  EXPECT_NE(message({{"rope_type", "linear"}}).find("factor"), std::string::npos);
  EXPECT_NE(message({{"rope_type", "linear"}, {"factor", 0.5}}).find("factor"), std::string::npos);
  EXPECT_NE(message({{"rope_type", "yarn"}, {"factor", 4.0}}).find("original_max_position_embeddings"),
            std::string::npos);
  EXPECT_NE(message({{"rope_theta", 0.0}}).find("rope_theta"), std::string::npos);
  EXPECT_NE(message({{"partial_rotary_factor", 2.0}}).find("partial_rotary_factor"), std::string::npos);
  EXPECT_NE(message({{"mrope_section", {1, 2}}}).find("mrope_section"), std::string::npos);
}

}  // namespace
}  // namespace kvcal
