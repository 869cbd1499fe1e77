// Bytes of weights by source and format, by hand; and for published models.
#include <gtest/gtest.h>

#include <fstream>

#include "capacity/advice.h"
#include "capacity/listed_modules.h"
#include "capacity/weight_bytes.h"
#include "harness/message_of.h"
#include "unit/capacity_models.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

TEST(Bits, of_weights_with_their_scales) {
  const auto bits = [](const char* json, const char* method) { return bits_per_weight(parse_json(json), method); };
  EXPECT_EQ(bits("null", "none"), 16);
  EXPECT_EQ(bits(R"({"quant_method": "fp8", "weight_block_size": [128, 128]})", "fp8"), 8);
  // AWQ, GPTQ: for 128 weights a scale of 16 bits and a zero point of 4.
  EXPECT_EQ(bits(R"({"bits": 4, "group_size": 128})", "awq"), 4 + 20.0 / 128);
  EXPECT_EQ(bits(R"({"bits": 8, "group_size": -1})", "gptq"), 8);
  // NVFP4: 8 bits for 16 weights; MXFP4: 8 for 32; integers: 16 for 32.
  EXPECT_EQ(
      bits(R"({"config_groups": {"a": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}}})", "modelopt"),
      4.5);
  EXPECT_EQ(bits(R"({"config_groups": {"a": {"weights": {"num_bits": 4, "type": "float", "group_size": 32}}}})",
                 "compressed-tensors"),
            4.25);
  EXPECT_EQ(bits(R"({"config_groups": {"a": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}}})",
                 "compressed-tensors"),
            4.5);
  // The larger of two.
  EXPECT_EQ(bits(R"({"config_groups": {"a": {"weights": {"num_bits": 4, "type": "float", "group_size": 16}},
                                       "b": {"weights": {"num_bits": 8, "type": "float", "group_size": null}}}})",
                 "modelopt"),
            8);
  EXPECT_EQ(bits(R"({"quant_algo": "NVFP4"})", "modelopt"), 4.5);
  EXPECT_EQ(bits(R"({"quant_algo": "FP8"})", "modelopt"), 8);
  EXPECT_EQ(bits("{}", "mxfp4"), 4.25);
}

TEST(Bits, that_are_not_known_are_not_invented) {
  for (const char* json : {R"({"quant_method": "hqq"})", R"({"bits": 99})", R"({"bits": -4})", R"({"bits": "4"})",
                           R"({"config_groups": []})", R"({"quant_algo": "ODD"})"})
    EXPECT_NE(message_of([&] { bits_per_weight(parse_json(json), "hqq"); }), "no error") << json;
}

// Embedding and head 2 x 128,256 x 4,096, last norm 4,096; a layer 2 x 4,096 x 4,096 + 2 x 1,024 x 4,096 + 3 x 4,096 x
// 14,336 + 2 x 4,096 = 218,112,000; 32 of them: 8,030,261,248 in all.
TEST(Weights, of_llama_3_8b) {
  const ModelSpec spec = spec_of(llama_8b());
  EXPECT_EQ(parameters_of(spec), 8030261248);
  EXPECT_EQ(bytes_of_parameters(spec, 16, false), 16060522496U);
  // FP8: 1,050,677,248 stay in 16 bits, 6,979,584,000 have 8.
  EXPECT_EQ(bytes_of_parameters(spec, 8, false), 2 * 1050677248U + 6979584000U);
}

// gpt-oss-20b. 16 bits: 2 x 201,088 x 2,880 + 2,880, and of each layer 2,880 x (2 x 4,096 + 2 x 512) = 26,542,080:
// 1,158,269,760 + 637,009,920. The rest of a layer, 4.25 bits: experts 32 x 24,891,840, router 92,192, biases of
// attention 8,000, sinks 64, norms 5,760: 796,644,896 x 24 = 19,119,477,504. 3,590,559,360 + 10,157,222,424 bytes; the
// published files have 13.76 GB.
TEST(Weights, of_gpt_oss_in_mxfp4) { EXPECT_EQ(bytes_of_parameters(spec_of(gpt_oss_20b()), 4.25, true), 13747781784U); }

class Folder {
 public:
  Folder() { fs::create_directories(path_); }
  ~Folder() { fs::remove_all(path_); }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path_ / name) << text; }
  WeightBytes measure() const {
    const ConfigFile file = read_config(path_);
    return measure_weights(file, parse_model(file.config)->spec());
  }

 private:
  fs::path path_ = fs::temp_directory_path() / ("kvcal_capacity_" + std::to_string(getpid()));
};

TEST(Weights, come_from_the_best_source) {
  const Folder folder;
  Json config = llama_8b();
  folder.write("config.json", config.dump());
  EXPECT_EQ(folder.measure().source, WeightSource::Config);
  EXPECT_EQ(folder.measure().bytes, 16060522496U);
  config["quantization_config"] = {{"quant_method", "fp8"}};
  folder.write("config.json", config.dump());
  EXPECT_EQ(folder.measure().bytes, 2 * 1050677248U + 6979584000U);
  EXPECT_TRUE(folder.measure().in_eight_bits);
  config["quantization_config"] = {{"quant_method", "hqq"}};
  folder.write("config.json", config.dump());
  EXPECT_THROW(folder.measure(), Error);
  // An index says it, whatever the format.
  folder.write("model.safetensors.index.json", R"({"metadata": {"total_size": 12345678}, "weight_map": {}})");
  EXPECT_EQ(folder.measure().source, WeightSource::Index);
  EXPECT_EQ(folder.measure().bytes, 12345678U);
  // Files that are there must be readable.
  folder.write("model.safetensors", "broken");
  EXPECT_THROW(folder.measure(), Error);
}

// Llama 3 8B, its MLPs in NVFP4, attention of the first two layers in FP8, the others' keys alone, and the head in
// NVFP4: of 16 bits 11.5 are saved on 32 x 3 x 4,096 x 14,336 = 5,637,144,576 and on 128,256 x 4,096 = 525,336,576, 8
// on 2 x 41,943,040 + 8,192 norms that count as the queries' and 30 x 4,194,304. What is not listed or not known saves
// nothing.
TEST(Weights, of_listed_modules_have_bits_of_their_own) {
  const Json nvfp4 = {{"quant_algo", "W4A16_NVFP4"}, {"group_size", 16}}, fp8 = {{"quant_algo", "FP8"}};
  Json listed = {{"lm_head", nvfp4}, {"model.visual.blocks.0.mlp.up_proj", fp8}, {"mtp.layers.0.mlp.up_proj", fp8}};
  for (int layer = 0; layer < 32; ++layer) {
    const std::string name = "model.layers." + std::to_string(layer) + ".";
    for (const char* part : {"gate_proj", "up_proj", "down_proj"}) listed[name + "mlp." + part] = nvfp4;
    for (const char* part : {"q_proj", "k_proj", "v_proj", "o_proj"})
      if (layer < 2 || part[0] == 'k') listed[name + "self_attn." + part] = fp8;
  }
  listed["model.layers.5.self_attn.o_proj"] = {{"quant_algo", "ODD"}};
  const Folder folder;
  Json config = llama_8b();
  config["quantization_config"] = {{"quant_method", "modelopt"}, {"quant_algo", "MIXED_PRECISION"}};
  folder.write("hf_quant_config.json", Json{{"quantization", {{"quantized_layers", listed}}}}.dump());
  folder.write("config.json", config.dump());
  const uint64_t saved = (5637144576U + 525336576U) / 16 * 23 + 2 * (41943040U + 8192U) + 30 * 4194304U;
  EXPECT_EQ(folder.measure().bytes, 16060522496U - saved);
  EXPECT_TRUE(folder.measure().by_module);
  config["quantization_config"]["quantized_layers"] = listed;
  folder.write("config.json", config.dump());
  folder.write("hf_quant_config.json", "{}");
  EXPECT_EQ(folder.measure().bytes, 16060522496U - saved);
}

// Qwen3.6-35B-A3B-NVFP4: of 40 layers 256 + 1 experts of 3 x 2,048 x 512 in 4.5 bits, delta nets (8,192 + 4,096 +
// 4,096) x 2,048 in 8, attention (2 x 4,096 + 2 x 512 + 4,096) x 2,048 in 8, head in 4.5.
TEST(Weights, of_listed_experts_and_delta_nets) {
  const Json nvfp4 = {{"quant_algo", "NVFP4"}}, fp8 = {{"quant_algo", "FP8"}};
  Json listed = {{"lm_head", nvfp4}};
  for (int layer = 0; layer < 40; ++layer) {
    const std::string name = "model.language_model.layers." + std::to_string(layer) + ".";
    listed[name + "mlp.experts"] = nvfp4;
    for (const char* part : {"gate_proj", "up_proj", "down_proj"}) listed[name + "mlp.shared_expert." + part] = nvfp4;
    for (const char* part : {"in_proj_qkv", "in_proj_z", "out_proj"})
      if (layer % 4 != 3) listed[name + "linear_attn." + part] = fp8;
    for (const char* part : {"k_proj", "v_proj", "o_proj"})
      if (layer % 4 == 3) listed[name + "self_attn." + part] = fp8;
  }
  const ModelSpec spec = spec_of(qwen3_5_35b());
  const auto bits_of = [](const Json& format) { return format.at("quant_algo") == "FP8" ? 8 : 4.5; };
  const uint64_t narrow = uint64_t{40} * 257 * 3 * 2048 * 512 + 248320U * 2048;
  const uint64_t eight = uint64_t{30} * 16384 * 2048 + 10U * (2 * 512 + 4096) * 2048;
  EXPECT_EQ(bytes_saved(listed, qwen3_5_35b(), spec, bits_of), narrow / 16 * 23 + eight);
}

// All tensors of the file have 1,004,944 elements; some are stored in F32, which a server loads in 16 bits.
TEST(Weights, of_the_demo_model_from_its_headers) {
  const ConfigFile file = read_config(fs::path(KVCAL_SOURCE_DIR) / "datasets/demo/stressed");
  const WeightBytes w = measure_weights(file, parse_model(file.config)->spec());
  EXPECT_EQ(w.source, WeightSource::Headers);
  EXPECT_EQ(w.bytes, 2 * 1004944U);
}

// The published models can be planned on eight large GPUs, with a bound that no mistake in units survives: at least a
// byte for two parameters, at most two for one.
TEST(Plans, of_published_models) {
  const Folder folder;
  std::ifstream lines(KVCAL_SOURCE_DIR "/tests/unit/data/models/published.jsonl");
  int n_planned = 0;
  for (std::string line; std::getline(lines, line); ++n_planned) {
    const Json e = parse_json(line);
    SCOPED_TRACE(e.at("model").get<std::string>());
    folder.write("config.json", e.at("config").dump());
    const ModelSpec spec = parse_model(e.at("config"))->spec();
    const WeightBytes weights = folder.measure();
    EXPECT_GE(weights.bytes * 2, weights.parameters);
    EXPECT_LE(weights.bytes, weights.parameters * 2);
    Deployment d;
    d.gpu_memory = uint64_t{2} << 40;
    const Capacity c = capacity_of(spec, d, weights);
    const int64_t context = std::min<int64_t>(context_of(spec, {}), 131072);
    EXPECT_GT(c.at(KvFormat::BF16).sequences(context), 0);
    EXPECT_GE(c.at(KvFormat::FP8).sequences(context), c.at(KvFormat::BF16).sequences(context));
    EXPECT_EQ(c.at(KvFormat::BF16).cost().bytes_per_token(), kv_bytes_per_token(spec, 2));
    EXPECT_FALSE(recommend(spec, c, {}).text.empty());
  }
  EXPECT_EQ(n_planned, 35);
}

}  // namespace
}  // namespace kvcal
