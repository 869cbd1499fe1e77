// What must not be written is refused before anything is, and the message says what to do.
#include "unit/export_fixture.h"

namespace kvcal {
namespace {

template <class Change>
std::string refusal(const Exported& model, const char* target, Change&& change, const ExportOptions& options = {}) {
  const std::string message = message_of([&] { model.write(target, change, options); });
  EXPECT_FALSE(std::filesystem::exists(model.out())) << message;
  return message;
}
std::string refusal(const Exported& model, const char* target) {
  return refusal(model, target, [](Artifact&) {});
}

TEST(ExportRefuses, AnotherModel) {
  const Exported llama("llama");
  expect_contains(refusal(llama, "vllm", [](Artifact& a) { a.model.weights_fingerprint = "0123456789abcdef"; }),
                  "--also-for");
  expect_contains(refusal(llama, "vllm", [](Artifact& a) { a.model.config_sha256 = "0123456789abcdef"; }),
                  "another config.json");
  expect_contains(refusal(llama, "vllm", [](Artifact& a) { a.model_type = "mistral"; }), "model_type 'mistral'");
  expect_contains(refusal(llama, "vllm", [](Artifact& a) { a.layers[0].n_kv_heads = 1; }), "KV heads");
  expect_contains(refusal(llama, "vllm", [](Artifact& a) { a.layers[0].name = "layers.0.self_attn"; }),
                  "layer 0 named");
}

TEST(ExportRefuses, OtherWeightsUnlessListed) {
  const Exported llama("llama");
  llama.write("vllm", [&](Artifact& a) {
    a.model.also_valid_for = {a.model.weights_fingerprint};
    a.model.weights_fingerprint = "0123456789abcdef";
    a.model.config_sha256 = "of the measured one";
  });
  EXPECT_TRUE(std::filesystem::exists(llama.out()));
}

TEST(ExportRefuses, MissingAndSurplusLayers) {
  const Exported llama("llama"), hybrid("qwen3_5");
  expect_contains(refusal(llama, "vllm", [](Artifact& a) { a.layers.erase(a.layers.begin()); }),
                  "no scales for layer(s) 0");
  expect_contains(refusal(hybrid, "vllm", [](Artifact& a) { a.layers[0].index = 0; }), "owns no cache in this model");
}

TEST(ExportRefuses, ScalesThatServersLoadWithoutAWord) {
  const Exported llama("llama");
  for (const float bad : {0.0F, -0.5F, INFINITY, NAN})
    expect_contains(refusal(llama, "vllm", [&](Artifact& a) { a.layers[1].value.scale = bad; }),
                    "layer 1 value: the scale is");
}

TEST(ExportRefuses, WeightFormatsWithoutParametersForScales) {
  for (const char* method : {"awq", "gptq", "bitsandbytes", "gguf", "mxfp4"}) {
    const Exported llama("llama");
    llama.quantize({{"quant_method", method}, {"bits", 4}});
    expect_contains(refusal(llama, "vllm"), "vllm-kv-cache-scales");
    expect_contains(refusal(llama, "sglang"), "sglang-kv-cache-scales");
  }
}

TEST(ExportRefuses, ClassesThatCannotTakeThem) {
  expect_contains(refusal(Exported("qwen3"), "sglang"), "--to sglang-json");
  expect_contains(refusal(Exported("gpt_oss"), "sglang"), "sglang-kv-cache-scales");
  expect_contains(refusal(Exported("deepseek_v3"), "vllm"), "vllm-kv-cache-scales");
  expect_contains(refusal(Exported("deepseek_v3"), "sglang"), "any value but 1 is wrong");
  expect_contains(refusal(Exported("qwen3_5"), "sglang-json"), "reads no such file");
}

TEST(ExportRefuses, WithFoldingForAWayOutWhereNothingLoads) {
  for (const auto& [model, target] : {std::pair{"qwen3", "sglang"}, {"gpt_oss", "sglang"}, {"deepseek_v3", "vllm"}})
    expect_contains(refusal(Exported(model), target), "kvcal fold ");
  const auto offers = [](const char* model, const char* target) {
    return refusal(Exported(model), target).find("kvcal fold") != std::string::npos;
  };
  EXPECT_FALSE(offers("zamba2", "vllm")) << "one block's weights serve several layers";
  EXPECT_FALSE(offers("bamba", "vllm")) << "the server does not have the class";
  EXPECT_FALSE(offers("qwen3_5", "sglang-json")) << "'--to sglang' is simpler";
}

TEST(ExportRefuses, ScalesFromBeforeAFold) {
  const Exported llama("llama");
  ModelIdentity identity = llama.model();
  const Artifact artifact = artifact_for(identity);
  identity.fold = FoldMark{identity.weights_fingerprint, 4, 0};
  identity.weights_fingerprint = std::string(64, 'f');
  expect_contains(message_of([&] { check_fits(artifact, identity); }), "before powers of two were folded");
  identity.fold->original_fingerprint = std::string(64, 'e');
  expect_contains(message_of([&] { check_fits(artifact, identity); }), "measured with other weights");
}

TEST(ExportRefuses, NumberFormats) {
  const Exported llama("llama");
  expect_contains(refusal(llama, "vllm", [](Artifact& a) { a.quantization.dtype = "int8"; }), "kvcal solve STATS");
  expect_contains(refusal(llama, "sglang", [](Artifact& a) { a.quantization.dtype = "fp8_e4m3fnuz"; }), "fp8_e4m3");
  llama.write("vllm", [](Artifact& a) { a.quantization.dtype = "fp8_e4m3fnuz"; });
  const Exported fp8("llama");
  fp8.quantize({{"quant_method", "fp8"}});
  expect_contains(refusal(fp8, "vllm", [](Artifact& a) { a.quantization.dtype = "fp8_e4m3fnuz"; }), "doubles");
}

TEST(ExportRefuses, ScalesPerHeadWhereOneIsTaken) {
  const Exported llama("llama");
  for (const char* target : {"sglang", "tgi", "sglang-json"})
    expect_contains(refusal(llama, target, make_per_head), "--granularity tensor");
  llama.quantize({{"quant_method", "fp8"}});
  expect_contains(refusal(llama, "vllm", make_per_head), "--granularity tensor");
  const Exported gemma("gemma4_k_eq_v");  // its layers differ in their numbers of KV heads
  const ModelSpec spec = gemma.model().spec;
  ASSERT_NE(spec.caches.front().n_kv_heads, spec.caches.back().n_kv_heads);
  expect_contains(refusal(gemma, "vllm", make_per_head), "different numbers of KV heads");
  expect_contains(refusal(Exported("gemma3_vl"), "vllm", make_per_head), "see each other");
}

TEST(ExportRefuses, InadequateLayersUnlessSkippedOrAllowed) {
  const auto inadequate = [](Artifact& a) { a.layers[1].value.assessment.fp8 = Fitness::Keep16; };
  const Exported llama("llama");
  expect_contains(refusal(llama, "vllm", inadequate), "--skip-layers keep16");
  ExportOptions skip;
  skip.skip_keep16 = true;
  expect_contains(refusal(llama, "sglang", inadequate, skip), "cannot keep single layers");
  const ExportPlan plan = llama.write("vllm", inadequate, skip);
  EXPECT_TRUE(plan.serving.commands[0].ends_with(" --kv-cache-dtype-skip-layers 1")) << plan.serving.commands[0];
  // A layer that is kept in another dtype has its scales all the same: unused, and right if the flag is forgotten.
  EXPECT_TRUE(stored(llama.out()).contains("model.layers.1.self_attn.v_scale"));
  ExportOptions allow, none;
  allow.allow_keep16 = true;
  Exported("llama").write("sglang", inadequate, allow);
  none.skip_layers = {99};
  expect_contains(refusal(Exported("llama"), "vllm", inadequate, none), "layer 99, which owns no cache");
}

TEST(ExportRefuses, ModeloptThatQuantisesNothing) {
  const Exported llama("llama");
  llama.quantize({{"quant_method", "modelopt"}, {"kv_cache_scheme", {{"num_bits", 8}}}});
  expect_contains(refusal(llama, "vllm"), "no quant_algo");
  expect_contains(refusal(Exported("llama"), "modelopt"), "not quantized by ModelOpt");
  expect_contains(refusal(Exported("llama"), "quark"), "not quantized by Quark");
}

TEST(ExportRefuses, ACheckpointThatHasScales) {
  const Exported llama("llama");
  llama.write("vllm");
  std::filesystem::remove_all(llama.source());
  std::filesystem::rename(llama.out(), llama.source());
  expect_contains(refusal(llama, "vllm"), "has 9 KV scale tensors already");
  expect_contains(refusal(llama, "vllm"), "--replace-scales");
}

TEST(ExportRefuses, ScalesThatFloat16CannotHold) {
  const Exported llama("llama");
  Json config = parse_json(llama.config());
  config["dtype"] = "float16";
  config["quantization_config"] = {{"quant_method", "fp8"}};
  llama.set_config(config);
  expect_contains(refusal(llama, "vllm", [](Artifact& a) { a.layers[0].value.scale = 3e-5F; }), "float16");
  llama.write("vllm");
}

}  // namespace
}  // namespace kvcal
