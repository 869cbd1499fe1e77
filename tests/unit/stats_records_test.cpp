// The blocks of a run's record: from a model, to JSON and back.
#include <gtest/gtest.h>

#include "harness/message_of.h"
#include "stats/calibration_info.h"
#include "stats/model_info.h"
#include "stats/run_record.h"

namespace kvcal {
namespace {

ModelSpec hybrid() {
  ModelSpec spec;
  spec.architecture = "Qwen3_5ForCausalLM";
  spec.model_type = "qwen3_5_text";
  spec.max_positions = 32768;
  for (int i = 0; i < 4; ++i) {
    LayerSpec layer;
    layer.index = i;
    layer.kind = i == 3 ? LayerKind::Attention : LayerKind::GatedDeltaNet;
    layer.cache = i == 3 ? 0 : -1;
    spec.layers.push_back(layer);
  }
  KvLayout layout;
  layout.layer = 3;
  spec.caches.push_back(layout);
  return spec;
}

// ------------------------------------------------------------------ from a model

TEST(ModelInfo, IsThatOfTheSpec) {
  ModelSpec spec = hybrid();
  const ModelInfo model = model_info(spec);
  EXPECT_EQ(model.architecture, "Qwen3_5ForCausalLM");
  EXPECT_EQ(model.model_type, "qwen3_5_text");
  EXPECT_EQ(model.n_layers, 4);
  EXPECT_EQ(model.n_kv_layers, 1);
  EXPECT_EQ(model.max_positions, 32768);
  EXPECT_FALSE(model.longrope);
  spec.rope_switch = 4096;
  EXPECT_EQ(model_info(spec).longrope, (LongRopeInfo{4096, "short"}));
  spec.above_rope_switch = true;
  EXPECT_EQ(model_info(spec).longrope, (LongRopeInfo{4096, "long"}));
}

TEST(LayerInfo, ALayerThatSharesACacheNamesItsOwner) {
  ModelSpec spec = hybrid();
  LayerSpec reader;
  reader.index = 4;
  reader.kind = LayerKind::Attention;
  reader.shares_cache = 0;
  spec.layers.push_back(reader);
  const std::vector<LayerInfo> without = layers_without_kv(spec);
  ASSERT_EQ(without.size(), 4U);
  EXPECT_EQ(without[2], (LayerInfo{2, "gated_delta_net", std::nullopt}));
  EXPECT_EQ(without[3], (LayerInfo{4, "attention", 3}));
}

TEST(Digests, MustBeDigests) {
  ModelInfo model;
  model.config_sha256 = model.weights_fingerprint = std::string(64, 'f');
  check_digests(model);
  model.weights_fingerprint = std::string(64, 'F');
  EXPECT_EQ(message_of([&] { check_digests(model); }),
            "weights_fingerprint is '" + std::string(64, 'F') + "', expected 64 lower-case hexadecimal digits");
  model.config_sha256 = "";
  EXPECT_EQ(message_of([&] { check_digests(model); }),
            "config_sha256 is '', expected 64 lower-case hexadecimal digits");
  CalibrationInfo calibration;
  calibration.prompts_sha256 = calibration.plan_sha256 = std::string(64, '0');
  check_digests(calibration);
  calibration.plan_sha256 = "unknown";
  EXPECT_EQ(message_of([&] { check_digests(calibration); }),
            "plan_sha256 is 'unknown', expected 64 lower-case hexadecimal digits");
}

// ------------------------------------------------------------------ JSON

constexpr const char* kModel =
    R"({"architecture":"A","model_type":"a","n_layers":4,"n_kv_layers":3,"max_positions":9,"tensor_prefix":"model.",)"
    R"("config_sha256":"c","weights_fingerprint":"w","also_valid_for":["v","u"],)"
    R"("longrope":{"original_positions":5,"list":"long"}})";
constexpr const char* kLayers =
    R"([{"index":0,"kind":"mamba"},{"index":2,"kind":"attention","shares_kv_with":1,"later":null}])";
constexpr const char* kCalibration =
    R"({"prompts_sha256":"p","plan_sha256":"q","n_prompts":7,"n_tokens":90,"longest":30,"max_length":40,"passes":2,)"
    R"("precision":"bf16","isa":"avx2","tool_version":"kvcal 1","activation_quant":"fp8_token","encoder_tokens":6,)"
    R"("merged":{"exact_passes":1,"sets":[{"plan_sha256":"q1","prompts_sha256":"p1","n_prompts":3,"n_tokens":40,)"
    R"("longest":30,"encoder_tokens":6,"sanity":{"mean_nll":1.25,"uniform_nll":9.5,"n_tokens":8}},)"
    R"({"plan_sha256":"q2","prompts_sha256":"p2","n_prompts":4,"n_tokens":50,"longest":20,"sanity":null}]}})";

TEST(Records, AreWrittenAsTheyWereRead) {
  EXPECT_EQ(to_json(model_info_from(parse_json(kModel))).dump(), kModel);
  EXPECT_EQ(to_json(layers_without_kv_from(parse_json(kLayers))).dump(), kLayers);
  EXPECT_EQ(to_json(calibration_info_from(parse_json(kCalibration))).dump(), kCalibration);
}

TEST(Records, KeepWhatLaterVersionsAdd) {
  Json model = parse_json(kModel), calibration = parse_json(kCalibration);
  model["later"] = {{"a", 1}};
  calibration["later"] = Json::array({1.5, "x"});
  calibration["merged"]["sets"][0]["sanity"]["later"] = true;
  EXPECT_EQ(to_json(model_info_from(model)).dump(), model.dump());
  EXPECT_EQ(to_json(calibration_info_from(calibration)).dump(), calibration.dump());
  EXPECT_NE(model_info_from(model), model_info_from(parse_json(kModel)));
}

TEST(Records, MembersThatAModelNeedNotHave) {
  Json model = parse_json(kModel), calibration = parse_json(kCalibration);
  model.erase("longrope");
  for (const char* key : {"activation_quant", "encoder_tokens", "merged"}) calibration.erase(key);
  EXPECT_FALSE(model_info_from(model).longrope);
  EXPECT_EQ(to_json(model_info_from(model)).dump(), model.dump());
  const CalibrationInfo plain = calibration_info_from(calibration);
  EXPECT_EQ(plain.activation_quant, "");
  EXPECT_FALSE(plain.encoder_tokens);
  EXPECT_FALSE(plain.merged);
  EXPECT_EQ(to_json(plain).dump(), calibration.dump());
}

TEST(Records, MessagesNameTheMember) {
  const auto model = [](auto change) {
    Json json = parse_json(kModel);
    change(json);
    return message_of([&] { model_info_from(json); });
  };
  EXPECT_EQ(model([](Json& j) { j.erase("tensor_prefix"); }), "key 'model.tensor_prefix' is missing");
  EXPECT_EQ(model([](Json& j) { j["n_layers"] = "four"; }),
            "key 'model.n_layers' is the string 'four', expected a whole number");
  EXPECT_EQ(model([](Json& j) { j["longrope"]["list"] = 3; }), "key 'model.longrope.list' is 3, expected a string");
  EXPECT_EQ(model([](Json& j) { j["also_valid_for"] = nullptr; }), "key 'model.also_valid_for' is missing");
  EXPECT_EQ(model([](Json& j) { j["also_valid_for"] = 3; }), "key 'model.also_valid_for' is number, expected a list");
  EXPECT_EQ(model([](Json& j) { j["also_valid_for"][1] = 3; }),
            "key 'model.also_valid_for' holds number, expected fingerprints");
  EXPECT_EQ(model([](Json& j) { j = 5; }), "key 'model.architecture' is looked for in 5, expected an object");
  const auto calibration = [](auto change) {
    Json json = parse_json(kCalibration);
    change(json);
    return message_of([&] { calibration_info_from(json); });
  };
  EXPECT_EQ(calibration([](Json& j) { j["n_tokens"] = "many"; }),
            "key 'calibration.n_tokens' is the string 'many', expected a whole number");
  EXPECT_EQ(calibration([](Json& j) { j["merged"] = 5; }), "calibration.merged has no list 'sets'");
  EXPECT_EQ(calibration([](Json& j) { j["merged"]["sets"][1].erase("longest"); }),
            "key 'calibration.merged.sets[1].longest' is missing");
  EXPECT_EQ(message_of([] { layers_without_kv_from(parse_json(R"([{"index":"0","kind":"mamba"}])")); }),
            "key 'layers_without_kv[].index' is the string '0', expected a whole number");
}

}  // namespace
}  // namespace kvcal
