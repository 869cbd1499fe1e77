// Every target written on a small folder and read back. Names and values are those that the servers' loaders take
// (names worked out by hand from the rules cited in the sources of each target).
#include <bit>
#include <cmath>

#include "artifact/nvfp4_scale.h"
#include "unit/export_fixture.h"

namespace kvcal {
namespace {

using Scales = std::map<std::string, std::vector<float>>;

TEST(ExportVllm, PlainWeights) {
  const Exported llama("llama");
  const std::string before = llama.config();
  llama.write("vllm");
  const Scales scales = stored(llama.out());
  EXPECT_EQ(scales.at("model.layers.1.self_attn.k_scale"), std::vector<float>{key_scale(1)});
  EXPECT_EQ(scales.at("model.layers.1.self_attn.v_scale"), std::vector<float>{key_scale(1) / 4});
  EXPECT_EQ(scales.at("model.layers.1.self_attn.q_scale"), std::vector<float>{key_scale(1) * 2});
  EXPECT_EQ(scales.size(), 3 * llama.model().spec.caches.size());

  const Json config = parse_json(llama.out_text("config.json"));
  const Json scheme = {
      {"num_bits", 8}, {"type", "float"}, {"strategy", "tensor"}, {"symmetric", true}, {"dynamic", false}};
  EXPECT_EQ(config["quantization_config"]["kv_cache_scheme"], scheme);
  EXPECT_EQ(config["quantization_config"]["config_groups"], Json::object());
  EXPECT_EQ(config["quantization_config"]["quant_method"], "compressed-tensors");
  // The publisher's text is there to the byte, up to the last member.
  const std::string kept = before.substr(0, before.rfind('\n', before.rfind('}') - 1));
  EXPECT_TRUE(llama.out_text("config.json").starts_with(before.substr(0, kept.find_last_not_of("\n }") + 1)));
  EXPECT_EQ(llama.config(), before);
}

TEST(ExportVllm, OneFileGetsAnIndex) {
  const Exported llama("llama");
  llama.write("vllm");
  const Json index = parse_json(llama.out_text("model.safetensors.index.json"));
  const Checkpoint original = Checkpoint::open(llama.source()), made = Checkpoint::open(llama.out());
  EXPECT_EQ(index["weight_map"]["model.norm.weight"], "model.safetensors");
  EXPECT_EQ(index["weight_map"]["model.layers.0.self_attn.k_scale"], kScaleShard);
  EXPECT_EQ(index["weight_map"].size(), made.names().size());
  EXPECT_EQ(index["metadata"]["total_size"].get<uint64_t>(), made.total_bytes());
  EXPECT_EQ(made.total_bytes() - original.total_bytes(), 3 * 4 * llama.model().spec.caches.size());
}

TEST(ExportVllm, AnIndexIsExtendedInItsOwnText) {
  const Exported llama("llama");
  const Checkpoint original = Checkpoint::open(llama.source());
  std::string text = "{\"metadata\": {\"total_size\": " + std::to_string(original.total_bytes()) +
                     ", \"x\": 1e3},\n \"weight_map\": {";
  for (const std::string& name : original.names())
    text += (name == original.names().front() ? "\"" : ", \"") + name + "\": \"model.safetensors\"";
  llama.write_file("model/model.safetensors.index.json", text + "}}");
  llama.write("vllm");
  const std::string made = llama.out_text("model.safetensors.index.json");
  const size_t map = text.find("weight_map");
  EXPECT_EQ(made.substr(made.find("weight_map"), text.size() - map), text.substr(map));
  EXPECT_NE(made.find("\"x\": 1e3"), std::string::npos);
  const uint64_t bytes = Checkpoint::open(llama.out()).total_bytes();
  EXPECT_NE(made.find("\"total_size\": " + std::to_string(bytes) + ","), std::string::npos) << made.substr(0, 80);
}

TEST(ExportVllm, PrefixesAreTheCheckpointsOwn) {
  const Exported vl("qwen3_5_vl"), nemotron("nemotron_h");
  vl.write("vllm");
  EXPECT_TRUE(stored(vl.out()).begin()->first.starts_with("model.language_model.layers."))
      << stored(vl.out()).begin()->first;
  for (const auto& [name, values] : stored(vl.out())) EXPECT_EQ(name.find("linear_attn"), std::string::npos);
  nemotron.write("vllm");
  const std::string layer = std::to_string(nemotron.model().spec.caches.front().layer);
  EXPECT_TRUE(stored(nemotron.out()).contains("backbone.layers." + layer + ".mixer.k_scale"));
}

TEST(ExportVllm, LayersThatShareACacheReadWithTheOwnersScale) {
  const Exported gemma("gemma4");
  gemma.write("vllm");
  const Scales scales = stored(gemma.out());
  // Layers 3 (sliding) and 4 (full) of 5 share: the last layers of their kind before them are 2 and 1.
  EXPECT_EQ(scales.at("model.layers.3.self_attn.k_scale"), std::vector<float>{key_scale(2)});
  EXPECT_EQ(scales.at("model.layers.4.self_attn.k_scale"), std::vector<float>{key_scale(1)});
  EXPECT_EQ(scales.at("model.layers.4.self_attn.v_scale"), std::vector<float>{key_scale(1) / 4});
  EXPECT_EQ(scales.size(), 15u);
}

TEST(ExportVllm, PerHead) {
  const Exported llama("llama");
  llama.write("vllm", make_per_head);
  const Checkpoint made = Checkpoint::open(llama.out());
  const KvLayout cache = llama.model().spec.caches[1];
  EXPECT_EQ(made.find("model.layers.1.self_attn.k_scale")->shape, (Shape{cache.n_kv_heads, 1, 1}));
  EXPECT_EQ(made.find("model.layers.1.self_attn.q_scale")->shape, (Shape{cache.n_heads, 1, 1}));
  EXPECT_EQ(stored(llama.out()).at("model.layers.1.self_attn.v_scale")[1], key_scale(1) / 4 * 2);
  const Json config = parse_json(llama.out_text("config.json"));
  EXPECT_EQ(config["quantization_config"]["kv_cache_scheme"]["strategy"], "attn_head");
}

TEST(ExportVllm, Fp8WeightsKeepTheirConfigAndGetValuesThatBf16Holds) {
  const Exported llama("llama");
  llama.quantize({{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}});
  llama.write("vllm");
  EXPECT_EQ(llama.out_text("config.json"), llama.config());
  for (const auto& [name, values] : stored(llama.out())) EXPECT_EQ(std::bit_cast<uint32_t>(values[0]) & 0xFFFFu, 0u);
  // 0.01 lies between the bf16 neighbors 0.00994873046875 and 0.010009765625.
  EXPECT_EQ(stored(llama.out()).at("model.layers.0.self_attn.k_scale")[0], 0.010009765625F);
}

TEST(ExportVllm, CompressedTensorsWeightsGainAScheme) {
  const Exported llama("llama");
  const Json group = {{"targets", {"Linear"}}, {"weights", {{"num_bits", 8}, {"type", "float"}}}};
  llama.quantize({{"quant_method", "compressed-tensors"}, {"config_groups", {{"group_0", group}}}});
  llama.write("vllm");
  const Json config = parse_json(llama.out_text("config.json"));
  EXPECT_EQ(config["quantization_config"]["config_groups"]["group_0"], group);
  EXPECT_EQ(config["quantization_config"]["kv_cache_scheme"]["strategy"], "tensor");
  EXPECT_EQ(stored(llama.out()).at("model.layers.0.self_attn.k_scale")[0], 0.01F);
}

const Json kModelOpt = {{"quant_method", "modelopt"}, {"quant_algo", "FP8"}, {"ignore", {"lm_head"}}};

TEST(ExportModelopt, ItsOwnNames) {
  const Exported llama("llama");
  llama.quantize(kModelOpt);
  llama.write_file("model/hf_quant_config.json",
                   R"({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8"}})");
  llama.write("modelopt");
  const Scales scales = stored(llama.out());
  EXPECT_EQ(scales.at("model.layers.0.self_attn.k_proj.k_scale")[0], 0.010009765625F);
  EXPECT_EQ(scales.size(), 2 * llama.model().spec.caches.size());
  EXPECT_EQ(Checkpoint::open(llama.out()).find("model.layers.0.self_attn.v_proj.v_scale")->shape, Shape{});
  const Json config = parse_json(llama.out_text("config.json"));
  EXPECT_EQ(config["quantization_config"]["kv_cache_scheme"],
            (Json{{"dynamic", false}, {"num_bits", 8}, {"type", "float"}}));
  EXPECT_EQ(
      llama.out_text("hf_quant_config.json"),
      R"({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}})");
}

TEST(ExportModelopt, Nvfp4HasGlobalScales) {
  const Exported llama("llama");
  llama.quantize(kModelOpt);
  ExportOptions options;
  options.nvfp4 = true;
  llama.write("modelopt", options);
  EXPECT_EQ(parse_json(llama.out_text("config.json"))["quantization_config"]["kv_cache_scheme"], "NVFP4");
  // absmax / 448 = 0.01 * 224 / 448 = 0.005, up to 0.0050048828125 in bf16.
  EXPECT_EQ(stored(llama.out()).at("model.layers.0.self_attn.k_proj.k_scale")[0], 0.0050048828125F);
}

TEST(ExportModelopt, VllmIntoModeloptKeepsTheConventionAndAddsQueries) {
  const Exported llama("llama");
  llama.quantize(kModelOpt);
  llama.write("vllm");
  const Scales scales = stored(llama.out());
  EXPECT_TRUE(scales.contains("model.layers.0.self_attn.k_proj.k_scale"));
  EXPECT_TRUE(scales.contains("model.layers.0.self_attn.q_scale"));
  EXPECT_FALSE(scales.contains("model.layers.0.self_attn.q_proj.q_scale"));
}

TEST(ExportModelopt, SaysThatNoServerSupportsItOnlyWhereNoneDoes) {
  for (const char* target : {"vllm", "modelopt"}) {
    const Exported llama("llama");
    llama.quantize(kModelOpt);
    ExportOptions options;
    options.skip_layers = {0};
    const Serving serving = llama.write(target, options).serving;
    EXPECT_NE(serving.commands.at(0).find("--kv-cache-dtype-skip-layers 0"), std::string::npos);
    const Json block = parse_json(llama.out_text("config.json"))["quantization_config"];
    EXPECT_TRUE(block.contains("kv_cache_quantized_layers")) << target;
    EXPECT_FALSE(block.contains("kv_cache_deployment_supported")) << target;
  }
}

TEST(ExportModelopt, NamesSglangOnlyWhereItTakesTheNames) {
  const auto serving_of = [](const char* golden) {
    const Exported model(golden);
    model.quantize(kModelOpt);
    return model.write("modelopt").serving;
  };
  EXPECT_EQ(serving_of("llama").commands.size(), 2u);
  for (const auto& [golden, why] :
       {std::pair("qwen2", "left out with a warning); use '--to sglang'"),
        std::pair("mixtral", "crash); use '--to sglang'"),
        std::pair("qwen3", "gives its attention (RadixAttention) no quantization config")}) {
    const Serving serving = serving_of(golden);
    EXPECT_EQ(serving.commands.size(), 1u) << golden;
    const auto says_why = [reason = why](const std::string& note) {
      return note.starts_with("not for SGLang") && note.find(reason) != note.npos;
    };
    EXPECT_TRUE(std::ranges::any_of(serving.notes, says_why)) << golden;
  }
}

TEST(ExportSglang, NamesByClass) {
  const Exported llama("llama"), qwen2("qwen2"), next("qwen3_next");
  llama.write("sglang");
  EXPECT_TRUE(stored(llama.out()).contains("model.layers.0.self_attn.k_scale"));
  EXPECT_FALSE(stored(llama.out()).contains("model.layers.0.self_attn.q_scale"));
  qwen2.write("sglang");
  EXPECT_TRUE(stored(qwen2.out()).contains("model.layers.0.self_attn.attn.k_scale"));
  next.write("sglang");
  for (const auto& [name, values] : stored(next.out()))
    EXPECT_TRUE(name.ends_with(".self_attn.k_proj.k_scale") || name.ends_with(".self_attn.v_proj.v_scale")) << name;
}

TEST(ExportTgi, TensorsAlone) {
  const Exported llama("llama");
  llama.write("tgi");
  EXPECT_EQ(llama.out_text("config.json"), llama.config());
  EXPECT_EQ(stored(llama.out()).size(), 2 * llama.model().spec.caches.size());
}

TEST(ExportQuark, OutputsOfTheProjections) {
  const Exported llama("llama");
  const Json weight = {{"dtype", "fp8_e4m3"}, {"qscheme", "per_tensor"}};
  llama.quantize({{"quant_method", "quark"},
                  {"global_quant_config", {{"weight", weight}, {"output_tensors", nullptr}}},
                  {"layer_quant_config", {{"*v_proj", {{"weight", nullptr}}}}},
                  {"export", {{"kv_cache_group", Json::array()}, {"min_kv_scale", 0.0}}}});
  llama.write("quark");
  EXPECT_TRUE(stored(llama.out()).contains("model.layers.0.self_attn.k_proj.output_scale"));
  const Json quark = parse_json(llama.out_text("config.json"))["quantization_config"];
  const Json output = {{"dtype", "fp8_e4m3"}, {"qscheme", "per_tensor"}, {"is_dynamic", false}};
  EXPECT_EQ(quark["export"]["kv_cache_group"], (Json{"*k_proj", "*v_proj"}));
  EXPECT_EQ(quark["layer_quant_config"]["*k_proj"]["weight"], weight);
  EXPECT_EQ(quark["layer_quant_config"]["*k_proj"]["output_tensors"], output);
  EXPECT_EQ(quark["layer_quant_config"]["*v_proj"]["output_tensors"], output);
  EXPECT_TRUE(quark["layer_quant_config"]["*v_proj"]["weight"].is_null());
}

TEST(ExportFiles, SglangJsonForTwoRanks) {
  const Exported llama("llama");
  ExportOptions options;
  options.tensor_parallel = 2;
  llama.write("sglang-json", options);
  const Json file = parse_json(read_file(llama.out(), 1 << 20));
  EXPECT_EQ(file["model_type"], "llama");
  EXPECT_EQ(file["kv_cache"]["dtype"], "float8_e4m3fn");
  ASSERT_EQ(file["kv_cache"]["scaling_factor"].size(), 2u);
  EXPECT_EQ(file["kv_cache"]["scaling_factor"]["0"], file["kv_cache"]["scaling_factor"]["1"]);
  EXPECT_EQ(file["kv_cache"]["scaling_factor"]["1"]["0"].get<float>(), 0.01F);
}

TEST(ExportFiles, PlainMap) {
  const Exported gemma("gemma4");
  gemma.write("json");
  const Json file = parse_json(read_file(gemma.out(), 1 << 20));
  EXPECT_EQ(file["convention"], "real = stored * scale");
  EXPECT_EQ(file["modules"]["model.layers.4.self_attn"]["shares_cache_of"], 1);
  EXPECT_EQ(file["modules"]["model.layers.4.self_attn"]["key"].get<float>(), key_scale(1));
}

TEST(ExportRounding, UpToBf16) {
  EXPECT_EQ(bf16_rounded_up(1.0F), 1.0F);
  EXPECT_EQ(bf16_rounded_up(std::nextafter(1.0F, 2.0F)), 1.0078125F);
  EXPECT_EQ(bf16_rounded_up(0.00930078F), 0.00933837890625F);  // the nearest, 0.00927734375, is below
  EXPECT_EQ(bf16_rounded_up(1.9999999F), 2.0F);
}

}  // namespace
}  // namespace kvcal
