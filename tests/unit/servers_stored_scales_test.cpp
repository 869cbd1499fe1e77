// The scales of folders that other tools wrote are found, placed and read to the bit.
#include <gtest/gtest.h>

#include "model/architecture.h"
#include "servers/stored_scales.h"
#include "unit/scale_folder.h"

namespace kvcal {
namespace {

using Site = KvScaleName::Site;
using Owner = StoredScale::Owner;

StoredScales read(const TempFolder& folder, const ScaleFolder& f) {
  f.write(folder);
  const Checkpoint checkpoint = Checkpoint::open(folder / "model");
  return read_stored_scales(checkpoint, parse_model(checkpoint.config())->spec());
}

const StoredScale& only(const StoredScales& s, int cache, Site site) {
  const auto found = s.of(cache, site);
  EXPECT_EQ(found.size(), 1u);
  return *found.at(0);
}

TEST(StoredScales, ReadsLlmCompressors) {
  const TempFolder folder;
  const StoredScales s = read(folder, llm_compressor_folder());
  EXPECT_EQ(s.tensors.size(), 8u);
  EXPECT_EQ(s.tensor_prefix, "model.");
  EXPECT_TRUE(s.unlisted.empty());
  const StoredScale& key = only(s, 0, Site::Key);
  EXPECT_EQ(key.tensor, "model.layers.0.self_attn.k_scale");
  EXPECT_EQ(key.file, "model.safetensors");
  EXPECT_EQ(key.spelling, ".k_scale");
  EXPECT_EQ(key.values, std::vector<float>{0.008605957F});  // 0x3c0d
  EXPECT_EQ(only(s, 3, Site::Value).values, std::vector<float>{0.0056762695F});
  EXPECT_EQ(carrier_of(s.declaration, ServerKind::Vllm), KvCarrier::CompressedTensors);
  EXPECT_EQ(carrier_of(s.declaration, ServerKind::Sglang), KvCarrier::CompressedTensors);
  EXPECT_TRUE(auto_is_fp8(s.declaration, ServerKind::Vllm) && auto_is_fp8(s.declaration, ServerKind::Sglang));
}

TEST(StoredScales, ReadsOnePerHead) {
  const TempFolder folder;
  const StoredScales s = read(folder, attn_head_folder());
  EXPECT_EQ(only(s, 1, Site::Key).values, (std::vector<float>{0.00909423828F, 0.0106811523F}));
  EXPECT_EQ(carrier_of(s.declaration, ServerKind::Vllm), KvCarrier::PerHead);
  EXPECT_FALSE(auto_is_fp8(s.declaration, ServerKind::Sglang));
}

TEST(StoredScales, ReadsModelOpts) {
  const TempFolder folder;
  const StoredScales s = read(folder, modelopt_folder());
  EXPECT_EQ(only(s, 2, Site::Key).tensor, "model.layers.2.self_attn.k_proj.k_scale");
  EXPECT_EQ(only(s, 2, Site::Key).values, std::vector<float>{0.0193917416F});
  EXPECT_EQ(only(s, 0, Site::Value).values, std::vector<float>{0.00294712605F});
  EXPECT_EQ(s.declaration.producer, "modelopt");
  EXPECT_EQ(declaration_error(s.declaration, ServerKind::Vllm), "Missing 'quant_algo' in quantization config");
  EXPECT_TRUE(read(folder, modelopt_folder(false)).tensors.empty());
}

TEST(StoredScales, ReadsTheFileBesideTheConfig) {
  const TempFolder folder;
  ScaleFolder f = modelopt_folder();
  f.config.erase("quantization_config");
  const KvDeclaration d = read(folder, f).declaration;
  EXPECT_EQ(d.source, "hf_quant_config.json");
  EXPECT_EQ(d.algorithm, "FP8");
  EXPECT_EQ(carrier_of(d, ServerKind::Sglang), KvCarrier::ModelOpt);
  EXPECT_TRUE(auto_is_fp8(d, ServerKind::Vllm));
}

TEST(StoredScales, ReadsOneForBoth) {
  const TempFolder folder;
  const StoredScales s = read(folder, autofp8_folder());
  EXPECT_EQ(only(s, 3, Site::KeyAndValue).values, std::vector<float>{0.018F});
  EXPECT_EQ(carrier_of(s.declaration, ServerKind::Vllm), KvCarrier::Fp8);
}

TEST(StoredScales, SaysWhoseTheyAre) {
  const TempFolder folder;
  ScaleFolder f = llm_compressor_folder();
  const auto scale = f32_tensor(Shape{}, {0.5F});
  f.tensors["model.layers.4.self_attn.k_scale"] = scale;
  f.tensors["model.visual.blocks.0.attn.k_scale"] = scale;
  f.tensors["mtp.layers.0.self_attn.k_scale"] = scale;
  f.tensors["model.layers.1.cross_attn.k_scale"] = scale;
  f.tensors["layers.1.self_attn.k_scale"] = scale;
  f.tensors["model.layers.0.self_attn.k_zero_point"] = {DType::F8E4M3, Shape{1}, std::string(1, '\x38')};
  const StoredScales s = read(folder, f);
  std::map<std::string, Owner> owners;
  for (const StoredScale& stored : s.tensors) owners[stored.tensor] = stored.owner;
  EXPECT_EQ(owners.at("model.layers.4.self_attn.k_scale"), Owner::NoLayer);
  EXPECT_EQ(owners.at("model.visual.blocks.0.attn.k_scale"), Owner::Tower);
  EXPECT_EQ(owners.at("mtp.layers.0.self_attn.k_scale"), Owner::Draft);
  EXPECT_EQ(owners.at("model.layers.1.cross_attn.k_scale"), Owner::NoModule);
  EXPECT_EQ(owners.at("layers.1.self_attn.k_scale"), Owner::NoModule);
  EXPECT_EQ(only(s, 0, Site::Key).values.size(), 1u);  // not the zero point
  for (const StoredScale& stored : s.tensors)
    EXPECT_TRUE(!stored.zero_point || stored.values == std::vector<float>{1.0F});  // 0x38 in E4M3
}

TEST(StoredScales, KnowsTheLayerBehindTheLastThatDrafts) {
  const TempFolder folder;
  ScaleFolder f = llm_compressor_folder();
  for (const char* layer : {"4", "5"})
    f.tensors["model.layers." + std::string(layer) + ".self_attn.attn.k_scale"] = f32_tensor(Shape{}, {0.5F});
  f.write(folder);
  const Checkpoint checkpoint = Checkpoint::open(folder / "model");
  ModelSpec spec = parse_model(checkpoint.config())->spec();
  spec.mtp_names = "layers.4.";
  std::map<std::string, Owner> owners;
  for (const StoredScale& stored : read_stored_scales(checkpoint, spec).tensors)
    owners[stored.attention] = stored.owner;
  EXPECT_EQ(owners.at("model.layers.4.self_attn"), Owner::Draft);
  EXPECT_EQ(owners.at("model.layers.5.self_attn"), Owner::NoLayer);
}

TEST(StoredScales, FindsWhatTheIndexLeavesOut) {
  const TempFolder folder;
  ScaleFolder f = llm_compressor_folder();
  for (auto it = f.tensors.begin(); it != f.tensors.end();)
    it = it->first.ends_with("_scale") ? (f.unlisted.insert(*it), f.tensors.erase(it)) : std::next(it);
  const StoredScales s = read(folder, f);
  EXPECT_TRUE(s.tensors.empty());
  ASSERT_EQ(s.unlisted.size(), 8u);
  EXPECT_EQ(s.unlisted[0].file, "extra.safetensors");
}

TEST(KvDeclaration, RefusesWhatVllmRefuses) {
  const auto error = [](const std::function<void(Json&)>& change) {
    Json config = {{"quantization_config", compressed_tensors_block()}};
    change(config["quantization_config"]);
    return declaration_error(read_kv_declaration(config, "nowhere"), ServerKind::Vllm);
  };
  EXPECT_EQ(error([](Json&) {}), "");
  EXPECT_EQ(error([](Json& q) { q["kv_cache_scheme"].erase("dynamic"); }), "");
  EXPECT_NE(error([](Json& q) { q["kv_cache_scheme"].erase("symmetric"); }).find("symmetric: None"), std::string::npos);
  EXPECT_NE(error([](Json& q) { q["kv_cache_scheme"].erase("strategy"); }).find("strategy None"), std::string::npos);
  EXPECT_NE(error([](Json& q) { q["kv_cache_scheme"].erase("num_bits"); }).find("num_bits=None"), std::string::npos);
  EXPECT_NE(error([](Json& q) { q["kv_cache_scheme"]["type"] = "int"; }).find("type=int"), std::string::npos);
  EXPECT_NE(error([](Json& q) { q["kv_cache_scheme"]["strategy"] = "channel"; }).find("channel"), std::string::npos);
  EXPECT_NE(error([](Json& q) {
              q["kv_cache_scheme"]["strategy"] = "attn_head";
              q.erase("config_groups");
            }).find("config_groups"),
            std::string::npos);
}

TEST(KvDeclaration, AutoIsWhatServersMakeOfIt) {
  struct Case {
    const char* quantization;
    std::string vllm, sglang;
  };
  const Case cases[] = {
      {R"({"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"})", "fp8", "fp8"},
      {R"({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_scheme": "fp8"})", "fp8", ""},
      {R"({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_scheme": "FP8"})", "fp8", "fp8"},
      {R"({"quant_method": "modelopt", "quantization": {"kv_cache_quant_algo": "FP8"}})", "fp8", "fp8"},
      {R"({"quant_method": "modelopt", "kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": false}})", "fp8",
       "fp8"},
      {R"({"quant_method": "modelopt", "kv_cache_scheme": {"num_bits": 8, "type": "float"}})", "", "fp8"},
      {R"({"quant_method": "modelopt", "kv_cache_scheme": {}, "kv_cache_quant_algo": "FP8"})", "fp8", ""},
      {R"({"quant_method": "modelopt", "kv_cache_scheme": "NVFP4"})", "nvfp4", ""},
      {R"({"quant_method": "modelopt", "kv_cache_scheme": {"num_bits": 4, "type": "float"}})", "nvfp4", ""},
      {R"({"quant_method": "modelopt", "kv_cache_quant_algo": "FP8_K_NVFP4_V"})", "", ""},
      {R"({"quant_method": "modelopt", "kv_cache_quant_algo": "NVFP4_AFFINE"})", "", ""},
      {R"({"quant_method": "fp8", "kv_cache_quant_algo": "FP8"})", "", "fp8"},
      {R"({"quant_method": "fp8"})", "", ""}};
  for (const Case& c : cases) {
    const KvDeclaration d = read_kv_declaration({{"quantization_config", parse_json(c.quantization)}}, "nowhere");
    EXPECT_EQ(auto_cache_type(d, ServerKind::Vllm), c.vllm) << c.quantization;
    EXPECT_EQ(auto_cache_type(d, ServerKind::Sglang), c.sglang) << c.quantization;
  }
}

TEST(KvDeclaration, NamesCachesThatNoServerMakes) {
  const auto said = [](const char* quantization) {
    return unserved_cache(read_kv_declaration({{"quantization_config", parse_json(quantization)}}, "nowhere"));
  };
  EXPECT_EQ(said(R"({"quant_method": "modelopt", "kv_cache_quant_algo": "NVFP4"})"), "");
  EXPECT_EQ(
      said(R"({"quant_method": "modelopt", "kv_cache_quant_algo": "FP8_K_NVFP4_V"})"),
      "config.json declares the cache 'FP8_K_NVFP4_V', which vLLM 0.33.0 and SGLang 0.5.23 do not know: under auto "
      "theirs stays in 16 bits");
  EXPECT_EQ(
      said(R"({"quant_method": "modelopt", "kv_cache_quant_algo": "NVFP4", "kv_cache_deployment_supported": false})"),
      "");
  EXPECT_EQ(said(R"({"quant_method": "modelopt", "kv_cache_quant_algo": "FP8", "kv_cache_deployment_supported": false,
                     "kv_cache_quantized_layers": {"model.layers.0.self_attn": {"quant_algo": "FP8"}}})"),
            "config.json lists the caches of layers, which no server reads; it says itself that servers do not support "
            "it");
}

TEST(KvDeclaration, OfTheFileBesideIsPassedOverWhereTheConfigHasOne) {
  const TempFolder folder;
  std::ofstream(folder / "hf_quant_config.json") << R"({"quantization": {"kv_cache_quant_algo": "FP8"}})";
  const Json config = {{"quantization_config", {{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}}}};
  const KvDeclaration d = read_kv_declaration(config, folder / "");
  EXPECT_EQ(auto_cache_type(d, ServerKind::Vllm), "");
  EXPECT_EQ(passed_over_cache(d).substr(0, 44), "hf_quant_config.json declares the cache 'FP8");
  EXPECT_EQ(auto_cache_type(read_kv_declaration(Json::object(), folder / ""), ServerKind::Vllm), "fp8");
}

// llm-compressor's NVFP4 caches, with k_global_scale (vllm PR 46329 would take them).
TEST(KvDeclaration, CachesOf4BitsOfCompressedTensorsStopVllm) {
  Json config = {{"quantization_config", compressed_tensors_block()}};
  config["quantization_config"]["kv_cache_scheme"].update({{"num_bits", 4}, {"strategy", "tensor_group"}});
  const KvDeclaration d = read_kv_declaration(config, "nowhere");
  EXPECT_NE(declaration_error(d, ServerKind::Vllm).find("however received num_bits=4"), std::string::npos);
  EXPECT_EQ(auto_cache_type(d, ServerKind::Sglang), "");
}

TEST(KvDeclaration, TakesWhatSglangTakes) {
  const auto carrier = [](const std::function<void(Json&)>& change) {
    Json config = {{"quantization_config", compressed_tensors_block()}};
    change(config["quantization_config"]);
    return carrier_of(read_kv_declaration(config, "nowhere"), ServerKind::Sglang);
  };
  EXPECT_EQ(carrier([](Json& q) { q["kv_cache_scheme"].erase("symmetric"); }), KvCarrier::CompressedTensors);
  EXPECT_EQ(carrier([](Json& q) { q["kv_cache_scheme"]["dynamic"] = true; }), KvCarrier::Other);
  EXPECT_EQ(carrier([](Json& q) { q["kv_cache_scheme"].erase("strategy"); }), KvCarrier::Other);
  EXPECT_EQ(carrier([](Json& q) { q.erase("kv_cache_scheme"); }), KvCarrier::Other);
  EXPECT_EQ(carrier([](Json& q) { q["quant_method"] = "awq"; }), KvCarrier::Other);
  EXPECT_EQ(carrier_of(read_kv_declaration(Json::object(), "nowhere"), ServerKind::Sglang), KvCarrier::None);
}

TEST(Quark, TakesManyNamesAndNotManyPatterns) {
  Json names = Json::array(), patterns = Json::array(), layers = Json::object();
  for (int i = 0; i < 3000; ++i) {
    names.push_back("group" + std::to_string(i));
    patterns.push_back("*group" + std::to_string(i));
    layers["layer" + std::to_string(i)] = {{"output_tensors", {{"dtype", "fp8_e4m3"}, {"qscheme", "per_tensor"}}}};
  }
  const auto read = [&](const Json& group) {
    const Json quark = {
        {"quant_method", "quark"}, {"layer_quant_config", layers}, {"export", {{"kv_cache_group", group}}}};
    return read_kv_declaration({{"quantization_config", quark}}, "nowhere").algorithm;
  };
  EXPECT_EQ(read(names), "");
  names.push_back("layer7");
  EXPECT_EQ(read(names), "fp8_e4m3");
  EXPECT_EQ(read({"*group", "*er7"}), "fp8_e4m3");
  EXPECT_THROW(read(patterns), Error);
}

}  // namespace
}  // namespace kvcal
