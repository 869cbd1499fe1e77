// The artifact's text: bytes, numbers, order; and reading it back.
#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "artifact/artifact.h"
#include "artifact/json_text.h"
#include "base/number_text.h"
#include "unit/solve_synthetic.h"
#include "unit/solved_artifact.h"

namespace kvcal {
namespace {

const Statistics& ordinary() {
  static const Statistics statistics = synthetic_statistics(ordinary_run());
  return statistics;
}

TEST(JsonNumber, PrintsAsTheShortestTextOfTheFloatAndReadsBackAsIt) {
  EXPECT_EQ(json_text(json_number(0.0312F)), "0.0312\n");
  EXPECT_EQ(json_text(json_number(1)), "1.0\n");
  EXPECT_EQ(json_text(json_number(847.5F)), "847.5\n");
  std::mt19937 engine(3);
  for (int i = 0; i < 200000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(engine()));
    if (!std::isfinite(value)) continue;
    const std::string text = json_text(json_number(value));
    ASSERT_EQ(static_cast<float>(parse_json(text).get<double>()), value) << text;
    if (std::fabs(value) > 1e9F) continue;  // whole numbers have all their digits
    ASSERT_EQ(text, shortest_float(value) + "\n");
  }
  EXPECT_THROW(json_number(INFINITY), Error);
}

TEST(JsonText, Layout) {
  const Json value = {{"a", {{"x", 1}, {"y", nullptr}}},
                      {"b", {1.5, 2.0}},
                      {"c", {{{"n", 1}}, {{"n", 2}}}},
                      {"d", Json::array()},
                      {"e", Json::object()}};
  EXPECT_EQ(
      json_text(value),
      "{\n  \"a\": { \"x\": 1, \"y\": null },\n  \"b\": [1.5, 2.0],\n  \"c\": [\n    { \"n\": 1 },\n    { \"n\": 2 }\n"
      "  ],\n  \"d\": [],\n  \"e\": {}\n}\n");
  EXPECT_EQ(parse_json(json_text(value)), value);
  EXPECT_THROW(json_text(Json("\xFF")), Error);
  EXPECT_THROW(json_text(Json(std::nan(""))), Error);
}

TEST(JsonText, ObjectsThatDoNotFitTakeALinePerMember) {
  Json wide = Json::object();
  for (int i = 0; i < 12; ++i) wide["member_" + std::to_string(i)] = 123456;
  const std::string text = json_text(wide);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 14);
  EXPECT_EQ(parse_json(text), wide);
}

TEST(ArtifactText, EqualInputsGiveEqualBytes) {
  for (const char* policy : {"absmax", "kl"}) {
    SolveOptions options;
    options.policy = policy;
    EXPECT_EQ(artifact_text(solved_artifact(ordinary(), options)),
              artifact_text(solved_artifact(synthetic_statistics(ordinary_run()), options)));
  }
}

TEST(ArtifactText, MembersAreInFixedOrder) {
  const Json json = parse_json(artifact_text(solved_artifact(ordinary())));
  std::vector<std::string> keys;
  for (const auto& member : json.items()) keys.push_back(member.key());
  EXPECT_EQ(keys, (std::vector<std::string>{"$schema", "format", "version", "model_type", "model", "quantization",
                                            "layers", "layers_without_kv", "calibration", "kv_cache"}));
  EXPECT_EQ(json["format"], "kv-cache-scales");
  EXPECT_EQ(json["version"], "1.3");
}

TEST(ArtifactText, HasNoTimeUnlessTheCallerGivesOne) {
  Artifact artifact = solved_artifact(ordinary());
  EXPECT_EQ(artifact_text(artifact).find("epoch"), std::string::npos);
  artifact.source_date_epoch = 1700000000;
  EXPECT_NE(artifact_text(artifact).find("\"source_date_epoch\": 1700000000"), std::string::npos);
}

/// Artifacts of every kind that make_artifact can give.
std::vector<Artifact> varieties() {
  std::vector<Artifact> out = {solved_artifact(ordinary())};
  SolveOptions options;
  options.granularity = Granularity::Head;
  options.policy = "percentile";
  options.format = "int8";
  options.limits = {0.02, 0.4, 0.6, 0.8, 0.5, 3};
  out.push_back(solved_artifact(ordinary(), options));
  SolveOptions channels;
  channels.granularity = Granularity::Channel;
  channels.format = "int8";
  out.push_back(solved_artifact(ordinary(), channels));
  SyntheticRun lonely = ordinary_run();
  lonely.n_prompts = 1;
  lonely.n_passes = 1;
  lonely.layout.pair_bound = PairBound::None;
  out.push_back(solved_artifact(synthetic_statistics(lonely)));
  out.back().source_date_epoch = 5;
  out.back().evidence.sanity = {1.25, 6.4, 40};
  SyntheticRun padded = ordinary_run();
  padded.key = [plain = gaussian(1, 1)](const Provenance& w) mutable { return w.head == 1 ? 0.0F : plain(w); };
  out.push_back(solved_artifact(synthetic_statistics(padded)));
  return out;
}

TEST(ArtifactText, NamesHeadsThatAreZeroThroughout) {
  const Json padded = to_json(varieties().back())["layers"][0];
  EXPECT_EQ(padded["key"]["zero_heads"], Json::array({1}));
  EXPECT_FALSE(padded["value"].contains("zero_heads"));
  Json json = to_json(varieties().back());
  for (const Json& wrong :
       {Json(0), Json(2), Json(-1), Json(1.5), Json("1"), Json(18446744073709551615U), Json(nullptr)}) {
    json["layers"][0]["key"]["zero_heads"] = Json::array({wrong});
    EXPECT_THROW(artifact_from_json(json), Error) << wrong;
  }
  json["layers"][0]["key"]["zero_heads"] = {1, 1};
  EXPECT_THROW(artifact_from_json(json), Error);
  json["layers"][0]["key"].erase("zero_heads");
  EXPECT_TRUE(artifact_from_json(json).layers[0].key.zero_heads.empty()) << "as in files of version 1.0";
}

TEST(ArtifactText, ReadsBackEqual) {
  for (const Artifact& artifact : varieties()) {
    const Artifact back = artifact_from_json(parse_json(artifact_text(artifact)));
    EXPECT_TRUE(back == artifact) << artifact_text(artifact) << artifact_text(back);
    EXPECT_EQ(artifact_text(back), artifact_text(artifact));
  }
}

TEST(ArtifactText, ToJsonIsWhatTheTextSays) {
  for (const Artifact& artifact : varieties()) EXPECT_EQ(parse_json(artifact_text(artifact)), to_json(artifact));
}

// ------------------------------------------------------------------ reading

using Change = void (*)(Json&);
struct Broken {
  const char* expected;  // in the message
  Change change;
};

TEST(ArtifactReader, NamesTheMemberThatIsWrong) {
  const Json good = to_json(solved_artifact(ordinary()));
  const Broken cases[] = {
      {"format", [](Json& j) { j["format"] = "kvstats"; }},
      {"versions 1.x", [](Json& j) { j["version"] = "2.0"; }},
      {"version", [](Json& j) { j.erase("version"); }},
      {"'quantization'", [](Json& j) { j.erase("quantization"); }},
      {"quantization.granularity", [](Json& j) { j["quantization"]["granularity"] = "row"; }},
      {"quantization.convention", [](Json& j) { j["quantization"]["convention"] = "stored = real * scale"; }},
      {"quantization.limits.rel", [](Json& j) { j["quantization"]["limits"]["rel"] = "0.1"; }},
      {"quantization.max_model_len", [](Json& j) { j["quantization"]["max_model_len"] = -1; }},
      {"'layers'", [](Json& j) { j["layers"] = "none"; }},
      {"layers[0]", [](Json& j) { j["layers"][0] = 7; }},
      {"layers[0].index", [](Json& j) { j["layers"][0]["index"] = -3; }},
      {"layers[0].index", [](Json& j) { j["layers"][0]["index"] = 1e15; }},
      {"layers[1].index", [](Json& j) { j["layers"].push_back(j["layers"][0]); }},
      {"layers[0].key", [](Json& j) { j["layers"][0].erase("key"); }},
      {"layers[0].key.scale", [](Json& j) { j["layers"][0]["key"].erase("scale"); }},
      {"layers[0].key.scale", [](Json& j) { j["layers"][0]["key"]["scale"] = 0.0; }},
      {"layers[0].key.scale", [](Json& j) { j["layers"][0]["key"]["scale"] = -0.5; }},
      {"layers[0].key.scale", [](Json& j) { j["layers"][0]["key"]["scale"] = 1e60; }},
      {"layers[0].key.scale", [](Json& j) { j["layers"][0]["key"]["scale"] = 1e-42; }},
      {"layers[0].key.scale", [](Json& j) { j["layers"][0]["key"]["scale"] = nullptr; }},
      {"layers[0].value.scale", [](Json& j) { j["layers"][0]["value"]["scale"] = "1.0"; }},
      {"layers[0].value.verdict", [](Json& j) { j["layers"][0]["value"]["verdict"] = "fine"; }},
      {"layers[0].value.absmax_per_head", [](Json& j) { j["layers"][0]["value"]["absmax_per_head"].push_back(1.0); }},
      {"layers[0].query.absmax_per_head[1]", [](Json& j) { j["layers"][0]["query"]["absmax_per_head"][1] = "x"; }},
      {"layers[0].key.scale_per_head", [](Json& j) { j["layers"][0]["key"]["scale_per_head"] = {1.0}; }},
      {"layers[0].key.scale_per_channel", [](Json& j) { j["layers"][0]["key"]["scale_per_channel"] = {1.0}; }},
      {"layers[0].value.scale_per_channel[1]",
       [](Json& j) {
         j["layers"][0]["value"]["scale_per_channel"] = {1.0, -1.0};
       }},
      {"layers[0].key.where.prompt", [](Json& j) { j["layers"][0]["key"]["where"]["prompt"] = 3; }},
      {"layers[0].key.error.lost_at_one", [](Json& j) { j["layers"][0]["key"]["error"]["lost_at_one"] = -0.1; }},
      {"layers[0].key.growth.converged", [](Json& j) { j["layers"][0]["key"]["growth"]["converged"] = 1; }},
      {"layers[0].key.growth.per_pass[0]", [](Json& j) { j["layers"][0]["key"]["growth"]["per_pass"][0] = "x"; }},
      {"layers[0].joint.verdict", [](Json& j) { j["layers"][0]["joint"]["verdict"] = "inadequate"; }},
      {"'model.tensor_prefix'", [](Json& j) { j["model"].erase("tensor_prefix"); }},
      {"'model.n_layers'", [](Json& j) { j["model"]["n_layers"] = "four"; }},
      {"layers_without_kv", [](Json& j) { j["layers_without_kv"] = Json::object(); }},
      {"'layers_without_kv[].kind'", [](Json& j) { j["layers_without_kv"][0].erase("kind"); }},
      {"'calibration.passes'", [](Json& j) { j["calibration"]["passes"] = 1.5; }},
      {"'calibration.converged'", [](Json& j) { j["calibration"].erase("converged"); }},
      {"'calibration.coverage.beyond_absmax'", [](Json& j) { j["calibration"]["coverage"]["beyond_absmax"] = -1; }},
      {"'calibration.sanity.n_tokens'",
       [](Json& j) {
         j["calibration"]["sanity"] = {{"mean_nll", 1}, {"uniform_nll", 2}};
       }},
      {"kv_cache.dtype", [](Json& j) { j["kv_cache"]["dtype"] = "float8_e5m2"; }},
      {"kv_cache.scaling_factor.0", [](Json& j) { j["kv_cache"]["scaling_factor"].erase("0"); }},
      {"kv_cache.scaling_factor.0.9",
       [](Json& j) {
         j["kv_cache"]["scaling_factor"]["0"].erase("2");
         j["kv_cache"]["scaling_factor"]["0"]["9"] = 1.0;
       }},
      {"kv_cache.scaling_factor.0.1x", [](Json& j) { j["kv_cache"]["scaling_factor"]["0"]["1x"] = 1.0; }},
      {"kv_cache_left_out", [](Json& j) { j.erase("kv_cache"); }},
  };
  for (const Broken& broken : cases) {
    Json json = good;
    broken.change(json);
    try {
      artifact_from_json(json);
      ADD_FAILURE() << broken.expected << ": accepted";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(broken.expected), std::string::npos) << e.what();
    }
  }
  EXPECT_THROW(artifact_from_json(Json::array()), Error);
}

TEST(ArtifactReader, LaterMinorVersionsMayHaveMoreMembers) {
  Json json = to_json(solved_artifact(ordinary()));
  json["version"] = "1.7";
  json["layers"][0]["key"]["entropy"] = 3.5;
  EXPECT_EQ(artifact_from_json(json).layers.size(), 1U);
}

TEST(ArtifactReader, BlocksAreWrittenAsTheyWereRead) {
  Json json = to_json(solved_artifact(ordinary()));
  json["model"]["later"] = 1;
  json["calibration"]["coverage"]["beyond_headroom"] = nullptr;
  json["calibration"]["coverage"]["later"] = 2;
  for (const bool of_version_1_0 : {false, true}) {
    if (of_version_1_0) json["calibration"].erase("coverage");
    EXPECT_EQ(to_json(artifact_from_json(json)).dump(), json.dump());
  }
}

TEST(ArtifactReader, FilesThatAreNoJson) {
  const auto path = std::filesystem::path(testing::TempDir()) / ("kvcal_artifact_" + std::to_string(::getpid()));
  const auto read = [&](const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    try {
      read_artifact(path);
      ADD_FAILURE() << "accepted";
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find(path.filename().string()), std::string::npos) << e.what();
    }
  };
  const std::string good = artifact_text(solved_artifact(ordinary()));
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("null"), good.substr(0, good.size() / 2),
        good + "x", "{\"format\": \"kv-cache-scales\", " + good.substr(1), std::string(100000, '['),
        std::string("{\"format\": \"kv-cache-scales\", \"version\": \"1.0\", \"model_type\": \"\xC3\x28\"}"),
        std::string("{\"format\": \"kv-cache-scales\", \"version\": \"1.0\", \"x\": NaN}")})
    read(text);
  std::ofstream(path, std::ios::binary) << good;
  EXPECT_TRUE(read_artifact(path) == solved_artifact(ordinary()));
  std::filesystem::remove(path);
  EXPECT_THROW(read_artifact(path), Error);
}

TEST(ArtifactReader, APackStandsForItsScaleFile) {
  const auto folder = std::filesystem::path(testing::TempDir()) / ("kvcal_pack_" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const std::string text = artifact_text(solved_artifact(ordinary()));
  std::ofstream(folder / "kv-cache-scales.json", std::ios::binary) << text;
  EXPECT_THROW(read_artifact(folder), Error) << "any folder";
  std::ofstream(folder / "kvcal-pack.json") << "{}";
  EXPECT_EQ(read_artifact_text(folder), text);
  EXPECT_TRUE(read_artifact(folder) == solved_artifact(ordinary()));
  std::filesystem::remove(folder / "kv-cache-scales.json");
  EXPECT_THROW(read_artifact(folder), Error);
  std::filesystem::remove_all(folder);
}

TEST(ArtifactReader, SurvivesTruncationAndFlippedBytes) {
  const std::string good = artifact_text(solved_artifact(ordinary()));
  std::mt19937 engine(5);
  for (int i = 0; i < 2000; ++i) {
    std::string text = good;
    for (unsigned n = 1 + engine() % 3; n > 0; --n) text[engine() % text.size()] = static_cast<char>(engine());
    if (i % 4 == 0) text.resize(engine() % text.size());
    try {
      artifact_from_json(parse_json(text));
    } catch (const Error&) {  // refused, or still a valid document
    }
  }
}

}  // namespace
}  // namespace kvcal
