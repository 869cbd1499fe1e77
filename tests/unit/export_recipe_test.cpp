// A recipe in the forms that targets have for it.
#include <gtest/gtest.h>

#include "base/sha256.h"
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
