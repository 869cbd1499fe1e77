// A recipe in the forms that targets have for it.
#include <gtest/gtest.h>

#include <array>

#include "artifact/nvfp4_scale.h"
#include "base/sha256.h"
#include "evaluate/make_variants.h"
#include "export/export.h"
#include "export/recipe.h"
#include "unit/evaluation_fixture.h"
#include "unit/export_fixture.h"

namespace kvcal {
namespace {

/// An exported folder's scale file and an evaluation of it, which keeps the first layer.
class WithRecipe : public testing::Test {
 protected:
  Exported llama_{"llama"};

  ExportRequest request(
      const char* target, const std::function<void(Json&)>& change = [](Json&) {}) const {
    const Artifact artifact = artifact_for(llama_.model());
    const std::string scales = artifact_text(artifact);
    std::vector<int> layers;
    for (const ArtifactLayer& layer : artifact.layers) layers.push_back(layer.index);
    Json evaluation = sound_evaluation(artifact.model, layers);
    evaluation["files"][0]["sha256"] = sha256_hex(scales);
    change(evaluation);
    llama_.write_file("scales.json", scales);
    llama_.write_file("evaluation.json", evaluation.dump(1));
    ExportRequest request;
    request.scales = llama_.folder() / "scales.json";
    request.recipe = llama_.folder() / "evaluation.json";
    request.model = llama_.source();
    request.out = llama_.out();
    request.target = target;
    return request;
  }
};

TEST_F(WithRecipe, VllmIsToldWhatToSkip) {
  const ExportResult done = export_scales(request("vllm"));
  EXPECT_EQ(done.skipped_layers, std::vector<int>{0});
  EXPECT_TRUE(done.plan.serving.commands[0].ends_with(" --kv-cache-dtype-skip-layers 0"))
      << done.plan.serving.commands[0];
  const Json record = parse_json(llama_.out_text("kvcal-export.json"));
  EXPECT_EQ(record["evaluation_sha256"], sha256_hex(read_file(llama_.folder() / "evaluation.json", 1 << 20)));
  EXPECT_TRUE(done.plan.serving.notes[0].starts_with("the recipe was measured: mean KL 0.0156 nats, limit 0.0312;"))
      << done.plan.serving.notes[0];
}

TEST_F(WithRecipe, ModeloptListsWhatIsQuantized) {
  llama_.quantize({{"quant_method", "modelopt"}, {"quant_algo", "FP8"}});
  llama_.write_file("model/hf_quant_config.json", R"({"quantization": {"quant_algo": "FP8"}})");
  const ExportResult done = export_scales(request("modelopt"));
  const Json inside = parse_json(llama_.out_text("config.json"))["quantization_config"];
  const Json beside = parse_json(llama_.out_text("hf_quant_config.json"))["quantization"];
  for (const Json& block : {inside, beside}) {
    EXPECT_EQ(block["kv_cache_schema_version"], 1) << block;
    EXPECT_FALSE(block["kv_cache_quantized_layers"].contains("model.layers.0.self_attn")) << block;
    EXPECT_EQ(block["kv_cache_quantized_layers"]["model.layers.1.self_attn"], (Json{{"quant_algo", "FP8"}}));
  }
  EXPECT_EQ(beside["kv_cache_quant_algo"], "FP8");
  ASSERT_EQ(done.plan.serving.commands.size(), 1U) << "SGLang keeps no layer";
  EXPECT_TRUE(done.plan.serving.commands[0].find("--kv-cache-dtype-skip-layers 0") != std::string::npos);
}

TEST_F(WithRecipe, ModeloptListsNothingWhereAllIs) {
  llama_.quantize({{"quant_method", "modelopt"}, {"quant_algo", "FP8"}});
  export_scales(request("modelopt", [](Json& e) { e["recipe"]["layers"][0]["format"] = "fp8_e4m3"; }));
  EXPECT_EQ(llama_.out_text("config.json").find("kv_cache_quantized_layers"), std::string::npos);
}

/// Layers in turn: NVFP4, FP8 keys with NVFP4 values, FP8, bf16.
void mix(Json& evaluation) {
  const std::array formats = {"nvfp4", "fp8_e4m3:nvfp4", "fp8_e4m3", "bf16"};
  size_t i = 0;
  for (Json& layer : evaluation["recipe"]["layers"]) layer["format"] = formats[i++ % 4];
}

TEST_F(WithRecipe, ModeloptWritesAMixtureWithTheScalesOfEach) {
  const std::string plain = llama_.config();
  for (const bool is_plain : {true, false}) {
    llama_.write_file("model/config.json", plain);
    if (!is_plain) llama_.quantize({{"quant_method", "modelopt"}, {"quant_algo", "FP8"}, {"kv_cache_scheme", "NVFP4"}});
    std::filesystem::remove_all(llama_.out());
    const ExportResult done = export_scales(request("modelopt", mix));
    const Json block = parse_json(llama_.out_text("config.json"))["quantization_config"];
    EXPECT_EQ(block["kv_cache_quant_algo"], "MIXED_PRECISION") << block;
    EXPECT_FALSE(block.contains("kv_cache_scheme")) << "gave way";
    EXPECT_EQ(block["kv_cache_deployment_supported"], false);
    const Json listed = block["kv_cache_quantized_layers"];
    const std::map<std::string, std::vector<float>> scales = stored(llama_.out());
    const std::array expected = {Json("NVFP4"), Json("FP8_K_NVFP4_V"), Json("FP8"), Json()};
    for (const ArtifactLayer& layer : artifact_for(llama_.model()).layers) {
      const auto kind = static_cast<size_t>(layer.index) % 4;
      const std::string module = "model.layers." + std::to_string(layer.index) + ".self_attn";
      EXPECT_EQ(listed.contains(module) ? listed[module]["quant_algo"] : Json(), expected[kind]) << module;
      // absmax is 224 times the scale: half of that is absmax / 448.
      const float key = bf16_rounded_up(layer.key.scale * (kind == 0 ? 0.5F : 1.0F));
      const float value = bf16_rounded_up(layer.value.scale * (kind < 2 ? 0.5F : 1.0F));
      EXPECT_EQ(scales.at(module + ".k_proj.k_scale")[0], key) << module;
      EXPECT_EQ(scales.at(module + ".v_proj.v_scale")[0], value) << module;
    }
    EXPECT_EQ(done.plan.serving.commands.size(), is_plain ? 0U : 1U) << "servers start with quantized weights alone";
  }
}

/// Predictions follow from these numbers alone: equal scales are equal figures.
TEST_F(WithRecipe, TheScalesOfAMixtureAreThoseThatWereEvaluated) {
  export_scales(request("modelopt", mix));
  const std::map<std::string, std::vector<float>> scales = stored(llama_.out());
  const ModelSpec spec = llama_.model().spec;
  const Artifact artifact = artifact_for(llama_.model());
  const std::array formats = {"nvfp4", "fp8_e4m3:nvfp4", "fp8_e4m3"};
  for (const KvLayout& layout : spec.caches) {
    if (layout.layer % 4 == 3) continue;
    const StoredFormat format = stored_format(formats[static_cast<size_t>(layout.layer % 4)]);
    Variant evaluated = in_format(spec, format, ranges_of(artifact));
    take_scales(evaluated, format, spec, artifact);
    const CacheSites& sites = evaluated.caches[static_cast<size_t>(layout.cache)];
    const std::string module = "model.layers." + std::to_string(layout.layer) + ".self_attn.";
    // The file's own need not be numbers of bfloat16, which vLLM keeps.
    EXPECT_EQ(scales.at(module + "k_proj.k_scale")[0], bf16_rounded_up(sites.key->read[0])) << module;
    EXPECT_EQ(scales.at(module + "v_proj.v_scale")[0], bf16_rounded_up(sites.value->read[0])) << module;
    if (sites.value->format == CacheFormat::Nvfp4) {
      EXPECT_EQ(scales.at(module + "v_proj.v_scale")[0], sites.value->read[0]) << "as it was evaluated";
    }
  }
}

TEST_F(WithRecipe, OtherTargetsNameTheOneThatMixes) {
  for (const char* target : {"vllm", "sglang", "tgi", "json"}) {
    std::string message = "was exported";
    try {
      export_scales(request(target, mix));
    } catch (const Error& e) {
      message = e.what();
    }
    EXPECT_NE(message.find("'--to modelopt', or evaluate again with --choose fp8_e4m3"), std::string::npos) << message;
  }
}

TEST_F(WithRecipe, TakesNoStatisticsForScales) {
  const auto only_statistics = [](Json& e) { e["files"][0]["name"] = "statistics"; };
  try {
    export_scales(request("vllm", only_statistics));
    FAIL() << "was exported";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("another scale file (SHA-256 none,"), std::string::npos) << e.what();
  }
  EXPECT_FALSE(std::filesystem::exists(llama_.out()));
}

}  // namespace
}  // namespace kvcal
