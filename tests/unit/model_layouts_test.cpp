// Configs in the manner of published ones (tests/unit/data/configs, made by tests/reference/make_config_layouts.py):
// the caches they mean, by hand or by the reference framework's modules, or why they are refused.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "model/architecture.h"

namespace kvcal {
namespace {

std::filesystem::path folder() { return std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/unit/data/configs"; }

Json config_named(const std::string& name) {
  JsonLimits limits;
  limits.allow_non_finite = true;
  return read_json_file(folder() / (name + ".json"), limits);
}

// Runs of layers with the same cache, as the script writes them: first, last, key-value heads, head width, window,
// rotary channels.
Json runs_of(const ModelSpec& spec) {
  Json runs = Json::array();
  for (const KvLayout& c : spec.caches) {
    const Json rest = {c.n_kv_heads, c.head_dim_k, c.window, c.rotary_dim};
    const bool goes_on = !runs.empty() && runs.back()[1] == c.layer - 1 &&
                         Json({runs.back()[2], runs.back()[3], runs.back()[4], runs.back()[5]}) == rest;
    if (goes_on)
      runs.back()[1] = c.layer;
    else
      runs.push_back({c.layer, c.layer, rest[0], rest[1], rest[2], rest[3]});
  }
  return runs;
}

TEST(Layouts, configs_mean_the_expected_caches_or_are_refused) {
  std::ifstream lines(folder() / "expected.jsonl");
  int n_exact = 0, n_by_hand = 0, n_refused = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json e = parse_json(line);
    SCOPED_TRACE(e.at("config").get<std::string>() + ": " + e.at("why").get<std::string>());
    const Json config = config_named(e.at("config"));
    if (e.contains("refused")) {
      ++n_refused;
      try {
        parse_model(config);
        ADD_FAILURE() << "accepted";
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(e.at("refused").get<std::string>()), std::string::npos)
            << error.what();
      }
      continue;
    }
    const auto model = parse_model(config);
    EXPECT_EQ(runs_of(model->spec()), e.at("runs"));
    EXPECT_EQ(static_cast<int64_t>(model->spec().layers.size()), e.at("n_layers").get<int64_t>());
    EXPECT_EQ(kv_bytes_per_token(model->spec(), 2), e.at("kv_bytes_per_token_bf16").get<int64_t>());
    ++n_exact;
    n_by_hand += e.at("by") == "hand" ? 1 : 0;
  }
  EXPECT_GE(n_exact, 40);
  EXPECT_GE(n_by_hand, 10);
  EXPECT_GE(n_refused, 15);
}

}  // namespace
}  // namespace kvcal
