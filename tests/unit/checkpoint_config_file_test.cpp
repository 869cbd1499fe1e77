// Finding config.json, and which changes of it keep the model's identity.
#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/config_file.h"
#include "unit/checkpoint_folder.h"

namespace kvcal {
namespace {

namespace fs = std::filesystem;

TEST(ConfigFile, FolderAndFile) {
  TempFolder folder;
  folder.write("config.json",
               R"({"model_type": "x", "time_step_limit": [0.0, Infinity], "f": {"__float__": "-Infinity"}})");
  const ConfigFile from_folder = read_config(folder.path());
  EXPECT_EQ(get_string(from_folder.config, "model_type"), "x");
  EXPECT_TRUE(std::isinf(from_folder.config["time_step_limit"][1].get<double>()));
  EXPECT_TRUE(std::isinf(from_folder.config["f"].get<double>()));
  EXPECT_TRUE(from_folder.generation_config.is_null());
  folder.write("generation_config.json", R"({"eos_token_id": [1, 2]})");
  const ConfigFile from_file = read_config(folder / "config.json");
  EXPECT_EQ(from_file.folder, folder.path());
  EXPECT_EQ(from_file.generation_config["eos_token_id"][1], 2);
}

TEST(ConfigFile, HubCacheFolder) {
  TempFolder folder;
  folder.write("blobs/abc", R"({"model_type": "hub"})");
  fs::create_directories(folder / "snapshots/0123abcd");
  fs::create_symlink("../../blobs/abc", folder / "snapshots/0123abcd/config.json");
  EXPECT_EQ(get_string(read_config(folder.path()).config, "model_type"), "hub") << "the only snapshot";
  folder.write("snapshots/4567/config.json", R"({"model_type": "newer"})");
  expect_contains(message_of([&] { read_config(folder.path()); }), "cache folder with 2 snapshots");
  folder.write("refs/main", "4567\n");
  EXPECT_EQ(get_string(read_config(folder.path()).config, "model_type"), "newer");
  EXPECT_EQ(read_config(folder.path()).folder, folder / "snapshots/4567");
  folder.write("refs/main", "../../elsewhere");
  expect_contains(message_of([&] { read_config(folder.path()); }), "no usable refs/main");
}

TEST(ConfigFile, WhatIsNoConfig) {
  TempFolder folder;
  const auto message = [](const fs::path& path) { return message_of([&] { read_config(path); }); };
  expect_contains(message(folder / "none"), "no such model folder");
  expect_contains(message(folder.path()), "has no config.json; is it a model folder?");
  folder.write("weights.gguf", "GGUF");
  expect_contains(message(folder.path()), "GGUF is not read: get the original checkpoint");
  expect_contains(message(folder / "weights.gguf"), "GGUF is not read: get the original checkpoint");
  fs::remove(folder / "weights.gguf");
  folder.write("sub/config.json", "{}");
  expect_contains(message(folder.path()), "did you mean '");
  folder.write("params.json", "{}");
  expect_contains(message(folder.path()), "get the Hugging Face version");
  folder.write("adapter_config.json", "{}");
  expect_contains(message(folder.path()), "LoRA adapter");
  folder.write("config.json", "[1]");
  expect_contains(message(folder.path()), "is JSON but not an object");
  folder.write("config.json", "{\"a\": }");
  expect_contains(message(folder.path()), "not valid JSON at line 1");
  folder.write("config.json", "{\"a\": 1, \"a\": 2}");
  expect_contains(message(folder.path()), "key 'a' appears twice");
  fs::remove(folder / "config.json");
  fs::create_symlink("config.json", folder / "config.json");
  expect_contains(message(folder.path()), "cannot be read: too many levels of symbolic links");
  expect_contains(message("/dev/null"), "is neither a folder nor a file");
}

Json config_with(const std::string& extra) {
  const JsonLimits limits{.allow_non_finite = true};
  return parse_json(R"({"model_type": "m", "rope_theta": 1000000.0, "text_config": {"hidden_size": 64})" + extra + "}",
                    limits);
}

TEST(ConfigIdentity, KvPartsDoNotMatter) {
  const std::string plain = config_sha256(config_with(""));
  for (const char* extra : {
           R"(, "quantization_config": {"quant_method": "compressed-tensors", "format": "dense", "config_groups": {},
                "ignore": [], "kv_cache_scheme": {"num_bits": 8, "type": "float"}})",
           R"(, "quantization_config": {"quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8},
                "config_groups": {"group_0": {"targets": ["Attention"], "weights": null, "input_activations": {}}}})",
           R"(, "quantization_config": {"quant_method": "modelopt", "quant_algo": null, "kv_cache_quant_algo": "FP8",
                "producer": {"name": "modelopt"}})",
           R"(, "quantization_config": {"quantization": {"quant_algo": null, "kv_cache_quant_algo": "FP8"}})",
           R"(, "quantization_config": {"kv_cache_scheme": "FP8"})",
           R"(, "compression_config": {"config_groups": {}, "kv_cache_scheme": {}})",
           R"(, "quantization_config": null)",
           R"(, "kv_cache_scheme": "static", "kv_cache_dtype": "fp8", "kv_cache_quant_algo": "FP8")"})
    EXPECT_EQ(config_sha256(config_with(extra)), plain) << extra;
  EXPECT_EQ(
      config_sha256(parse_json(R"({"text_config": {"quantization_config": {"kv_cache_scheme": {}}, "hidden_size": 64},
                                         "rope_theta": 1e6, "model_type": "m"})")),
      plain)
      << "order, spelling of numbers and a nested KV part";
}

TEST(ConfigIdentity, EverythingElseMatters) {
  const std::string plain = config_sha256(config_with(""));
  for (
      const char* extra :
      {R"(, "sliding_window": 4096)", R"(, "rope_scaling": null)", R"(, "limit": Infinity)",
       R"(, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]})",
       R"(, "quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8}}}})",
       R"(, "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"})"})
    EXPECT_NE(config_sha256(config_with(extra)), plain) << extra;
}

TEST(ConfigIdentity, AddingKvScalesToQuantisedWeightsKeepsIt) {
  EXPECT_EQ(config_sha256(config_with(R"(, "quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8"})")),
            config_sha256(config_with(R"(, "quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8",
                                         "kv_cache_quant_algo": "FP8", "kv_cache_scheme": {"num_bits": 8}})")));
}

}  // namespace
}  // namespace kvcal
