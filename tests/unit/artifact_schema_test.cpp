// The shipped schema accepts what we write, and names the place of whatever else is put there.
#include "artifact/artifact_schema.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "artifact/schema_check.h"
#include "base/read_file.h"
#include "unit/solve_synthetic.h"
#include "unit/solved_artifact.h"

namespace kvcal {
namespace {

const std::string& schema() {
  static const std::string text =
      read_file(std::filesystem::path(KVCAL_SOURCE_DIR) / "schemas" / kArtifactSchemaFile, size_t{1} << 20);
  return text;
}

const Json& good() {
  static const Json json = to_json(solved_artifact(synthetic_statistics(ordinary_run())));
  return json;
}

std::string shown(const std::vector<SchemaError>& errors) {
  std::string out;
  for (const SchemaError& e : errors) out += e.path + ": " + e.message + "\n";
  return out;
}

TEST(Schema, IsPartOfTheProgram) { EXPECT_TRUE(artifact_schema() == schema()) << artifact_schema().size() << " bytes"; }

TEST(Schema, AcceptsEverythingWeWrite) {
  const Statistics statistics = synthetic_statistics(ordinary_run());
  for (const char* policy : {"absmax", "pow2", "percentile", "mse", "kl"})
    for (const char* format : {"fp8_e4m3", "fp8_e4m3fnuz", "int8"})
      for (const Granularity granularity : {Granularity::Tensor, Granularity::Head}) {
        SolveOptions options;
        options.policy = policy;
        options.format = format;
        options.granularity = granularity;
        const auto errors = check_schema(to_json(solved_artifact(statistics, options)), schema());
        EXPECT_TRUE(errors.empty()) << shown(errors);
      }
  SolveOptions channels;
  channels.format = "int8";
  channels.granularity = Granularity::Channel;
  const auto errors = check_schema(to_json(solved_artifact(statistics, channels)), schema());
  EXPECT_TRUE(errors.empty()) << shown(errors);
}

TEST(Schema, AcceptsRareShapes) {
  SyntheticRun run = ordinary_run();
  run.n_prompts = run.n_passes = 1;
  run.layout.pair_bound = PairBound::None;
  Statistics statistics = synthetic_statistics(run);
  statistics.run.sanity = {1.5, 6.4, 200};
  statistics.run.tags = {{"a tag", {0}}};
  Artifact artifact = solved_artifact(statistics);
  artifact.layers[0].value.growth.depends_on = {"a prompt", 2.5F};
  artifact.layers[0].value.growth.depends_on_tag = {"a tag", std::nullopt};
  artifact.source_date_epoch = 1700000000;
  for (ArtifactSite* site : {&artifact.layers[0].key, &artifact.layers[0].value, &artifact.layers[0].query})
    site->zero_heads = {1};
  EXPECT_TRUE(check_schema(to_json(artifact), schema()).empty()) << shown(check_schema(to_json(artifact), schema()));
}

TEST(Schema, AcceptsTheBlocksOfTheRecord) {
  ModelSpec spec;
  spec.architecture = "Qwen3ForCausalLM";
  spec.rope_switch = 4096;
  spec.layers.resize(3);
  for (int i = 0; i < 3; ++i) spec.layers[static_cast<size_t>(i)].index = i;
  spec.layers[1].cache = 0;
  spec.caches.resize(1);
  Artifact artifact = solved_artifact(synthetic_statistics(ordinary_run()));
  artifact.model = model_info(spec);
  artifact.model.config_sha256 = std::string(64, '2');
  artifact.model.weights_fingerprint = std::string(64, '3');
  artifact.layers_without_kv = layers_without_kv(spec);
  artifact.calibration.activation_quant = "fp8_token";
  artifact.calibration.encoder_tokens = 12;
  artifact.calibration.merged.emplace().sets.resize(2);
  artifact.evidence.beyond.reset();
  const Json json = to_json(artifact);
  EXPECT_TRUE(check_schema(json, schema()).empty()) << shown(check_schema(json, schema()));
}

struct Mutation {
  const char* path;
  void (*change)(Json&);
};

TEST(Schema, RejectsMutationsAtTheirPlace) {
  const Mutation mutations[] = {
      {"", [](Json& j) { j.erase("format"); }},
      {"", [](Json& j) { j.erase("calibration"); }},
      {"", [](Json& j) { j["comment"] = "hand-made"; }},
      {"", [](Json& j) { j.erase("kv_cache"); }},
      {"", [](Json& j) { j["kv_cache_left_out"] = "although it is there"; }},
      {"format", [](Json& j) { j["format"] = "scales"; }},
      {"version", [](Json& j) { j["version"] = "2.0"; }},
      {"version", [](Json& j) { j["version"] = 1.0; }},
      {"model_type", [](Json& j) { j["model_type"] = nullptr; }},
      {"model.config_sha256", [](Json& j) { j["model"]["config_sha256"] = "abc"; }},
      {"model.weights_fingerprint", [](Json& j) { j["model"]["weights_fingerprint"] = std::string(64, 'G'); }},
      {"model.also_valid_for[0]", [](Json& j) { j["model"]["also_valid_for"] = {"me"}; }},
      {"model.n_layers", [](Json& j) { j["model"]["n_layers"] = 2.5; }},
      {"quantization.dtype", [](Json& j) { j["quantization"]["dtype"] = "fp8_e5m2"; }},
      {"quantization.max", [](Json& j) { j["quantization"]["max"] = 57344; }},
      {"quantization.convention", [](Json& j) { j["quantization"]["convention"] = "stored = real * scale"; }},
      {"quantization.headroom", [](Json& j) { j["quantization"]["headroom"] = 0.5; }},
      {"quantization.limits", [](Json& j) { j["quantization"]["limits"].erase("noise"); }},
      {"layers", [](Json& j) { j["layers"] = Json::array(); }},
      {"layers[0]", [](Json& j) { j["layers"][0].erase("value"); }},
      {"layers[0].name", [](Json& j) { j["layers"][0]["name"] = ""; }},
      {"layers[0].kind", [](Json& j) { j["layers"][0]["kind"] = "linear"; }},
      {"layers[0].key", [](Json& j) { j["layers"][0]["key"].erase("scale"); }},
      {"layers[0].key.scale", [](Json& j) { j["layers"][0]["key"]["scale"] = 0; }},
      {"layers[0].key.scale", [](Json& j) { j["layers"][0]["key"]["scale"] = "0.1"; }},
      {"layers[0].value.scale", [](Json& j) { j["layers"][0]["value"]["scale"] = -1.0; }},
      {"layers[0].value.scale", [](Json& j) { j["layers"][0]["value"]["scale"] = 1e39; }},
      {"layers[0].value", [](Json& j) { j["layers"][0]["value"]["envelope"] = 3.0; }},
      {"layers[0].key.verdict", [](Json& j) { j["layers"][0]["key"]["verdict"] = "ok"; }},
      {"layers[0].key.observations", [](Json& j) { j["layers"][0]["key"]["observations"] = 0; }},
      {"layers[0].key.absmax_per_head[1]", [](Json& j) { j["layers"][0]["key"]["absmax_per_head"][1] = -1.0; }},
      {"layers[0].key.error.clipped_at_one", [](Json& j) { j["layers"][0]["key"]["error"]["clipped_at_one"] = 1.5; }},
      {"layers[0].value.error", [](Json& j) { j["layers"][0]["value"]["error"]["noise_at_one"] = 0.1; }},
      {"layers[0].key.where.pass", [](Json& j) { j["layers"][0]["key"]["where"]["pass"] = 0; }},
      {"layers[0].key.growth.converged", [](Json& j) { j["layers"][0]["key"]["growth"]["converged"] = "yes"; }},
      {"layers[0].joint", [](Json& j) { j["layers"][0]["joint"].erase("verdict"); }},
      {"layers_without_kv[2].kind", [](Json& j) { j["layers_without_kv"][2]["kind"] = "Gated Delta Net"; }},
      {"calibration.plan_sha256", [](Json& j) { j["calibration"]["plan_sha256"] = ""; }},
      {"calibration.precision", [](Json& j) { j["calibration"]["precision"] = "fp16"; }},
      {"calibration.sanity", [](Json& j) { j["calibration"]["sanity"] = 3; }},
      {"kv_cache.dtype", [](Json& j) { j["kv_cache"]["dtype"] = "fp8"; }},
      {"kv_cache.scaling_factor", [](Json& j) { j["kv_cache"]["scaling_factor"]["1"] = Json::object(); }},
      {"kv_cache.scaling_factor.0.3",
       [](Json& j) {
         j["kv_cache"]["scaling_factor"]["0"]["3"] = {0.1, 0.2};
       }},
  };
  for (const Mutation& mutation : mutations) {
    Json json = good();
    mutation.change(json);
    const std::vector<SchemaError> errors = check_schema(json, schema());
    EXPECT_TRUE(std::any_of(errors.begin(), errors.end(), [&](const auto& e) { return e.path == mutation.path; }))
        << "expected a finding at '" << mutation.path << "', got:\n"
        << shown(errors);
  }
}

TEST(Schema, ReportsEachPlaceAndNotItsParents) {
  Json json = good();
  json["layers"][0]["key"]["scale"] = -1;
  json["calibration"]["precision"] = "fp16";
  const std::vector<SchemaError> errors = check_schema(json, schema());
  ASSERT_EQ(errors.size(), 2U) << shown(errors);
  EXPECT_FALSE(errors[0].message.empty());
}

TEST(Schema, DocumentsThatAreNoObject) {
  for (const Json& json : {Json(), Json(3), Json("text"), Json::array()})
    EXPECT_FALSE(check_schema(json, schema()).empty());
}

TEST(Schema, LongTextIsReportedBeforeAPatternMeetsIt) {
  Json json = good();
  json["model"]["config_sha256"] = std::string(10'000'000, 'a');
  const std::vector<SchemaError> errors = check_schema(json, schema());
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors[0].path, "model.config_sha256");
}

TEST(Schema, ABrokenSchemaIsAnError) {
  EXPECT_THROW(check_schema(good(), "{"), Error);
  EXPECT_THROW(check_schema(good(), R"({"properties": {"format": {"type": "no type"}}})"), Error);
}

}  // namespace
}  // namespace kvcal
