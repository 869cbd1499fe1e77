#include <gtest/gtest.h>

#include "checkpoint/quantization.h"
#include "unit/checkpoint_folder.h"

namespace kvcal {
namespace {

std::string describe(const std::string& config, const TempFolder& folder) {
  return str(describe_quantization(parse_json(config), folder.path()));
}

TEST(Quantization, FromConfig) {
  TempFolder folder;
  EXPECT_EQ(describe("{}", folder), "none");
  EXPECT_EQ(
      describe(R"({"quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}})",
               folder),
      "fp8 (e4m3, 128x128 blocks); says config.json");
  EXPECT_EQ(describe(R"({"text_config": {"quantization_config": {"quant_method": "compressed-tensors",
                         "format": "pack-quantized", "kv_cache_scheme": null,
                         "config_groups": {"g": {"weights": {"type": "int", "num_bits": 4, "strategy": "group"}}}}}})",
                     folder),
            "compressed-tensors (pack-quantized, weights int 4 bits, per group); says config.json text_config");
  EXPECT_EQ(describe(R"({"quantization_config": {"quant_algo": "FP8", "kv_cache_scheme": "FP8"}})", folder),
            "modelopt (FP8), KV cache FP8; says config.json");
  EXPECT_EQ(describe(R"({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128}})", folder),
            "gptq (4 bits, groups of 128); says config.json");
  EXPECT_EQ(describe(R"({"quantization": {"bits": 4, "group_size": 64}})", folder),
            "mlx (4 bits, groups of 64); says config.json");
  const Json twice = parse_json(R"({"quantization": {"bits": 4, "group_size": 64},
                                    "quantization_config": {"bits": 4, "group_size": 64}})");
  EXPECT_EQ(str(describe_quantization(twice, folder.path())), "mlx (4 bits, groups of 64); says config.json");
  EXPECT_FALSE(is_readable(describe_quantization(twice, folder.path()))) << "MLX writes the same under both keys";
}

TEST(Quantization, KvOnlyIsNoWeightQuantization) {
  TempFolder folder;
  const QuantizationSummary summary = describe_quantization(
      parse_json(R"({"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {},
                     "kv_cache_scheme": {"type": "float", "num_bits": 8, "strategy": "tensor", "dynamic": false}}})"),
      folder.path());
  EXPECT_FALSE(summary.weights_quantized);
  EXPECT_EQ(summary.method, "none");
  EXPECT_EQ(summary.kv_cache, "float 8 bits, per tensor");
}

TEST(Quantization, FromFilesBesideConfig) {
  TempFolder folder;
  folder.write(
      "hf_quant_config.json",
      R"({"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8",
                   "group_size": 16, "exclude_modules": ["lm_head"]}})");
  EXPECT_EQ(describe("{}", folder), "modelopt (NVFP4, groups of 16), KV cache FP8; says hf_quant_config.json");
  EXPECT_EQ(describe(R"({"quantization_config": {"quant_method": "fp8"}})", folder),
            "fp8, KV cache FP8 by hf_quant_config.json; says config.json")
      << "config.json decides, the other file adds";
  folder.write("hf_quant_config.json", "{");
  expect_contains(message_of([&] { describe("{}", folder); }), "hf_quant_config.json': not valid JSON");
}

TEST(Quantization, Readable) {
  TempFolder folder;
  const auto readable = [&](const std::string& quantization) {
    return is_readable(
        describe_quantization(parse_json(R"({"quantization_config": )" + quantization + "}"), folder.path()));
  };
  for (const char* read : {R"({"quant_method": "awq", "bits": 4, "version": "gemm"})", R"({"quant_method": "quark"})",
                           R"({"quant_method": "auto-round", "bits": 3, "packing_format": "auto_round:auto_gptq"})",
                           R"({"quant_method": "gptq", "bits": 3, "checkpoint_format": "gptq_v2"})"})
    EXPECT_TRUE(readable(read)) << read;
  for (const char* not_read :
       {R"({"quant_method": "awq", "version": "gemv"})", R"({"quant_method": "gptq", "is_marlin_format": true})",
        R"({"quant_method": "hqq"})", R"({"quant_method": "modelopt", "quant_algo": "NVFP4_SVD"})",
        R"({"quant_method": "compressed-tensors", "sparsity_config": {"format": "sparse-bitmask"}})"})
    EXPECT_FALSE(readable(not_read)) << not_read;
}

TEST(Quantization, StrangeValuesAreSurvived) {
  TempFolder folder;
  for (
      const char* config :
      {R"({"quantization_config": 3})", R"({"quantization_config": []})",
       R"({"quantization_config": {"quant_method": 3}})",
       R"({"quantization_config": {"quant_method": "a\u001b[0m", "weight_block_size": "x", "config_groups": [1]}})",
       R"({"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"g": 1}, "kv_cache_scheme": []}})",
       R"({"text_config": 1, "llm_config": {"text_config": {"quantization": {"kv_cache_scheme": {}}}}})"})
    EXPECT_EQ(describe(config, folder).find('\x1b'), std::string::npos) << config;
}

TEST(Quantization, PlainDtypes) {
  EXPECT_TRUE(is_plain({"x", DType::BF16, {1}, 0, 2}));
  EXPECT_TRUE(is_plain({"x", DType::F16, {1}, 0, 2}));
  EXPECT_TRUE(is_plain({"x", DType::F32, {1}, 0, 4}));
  for (const DType t : {DType::F8E4M3, DType::U8, DType::I32, DType::I8, DType::F4})
    EXPECT_FALSE(is_plain({"x", t, {2}, 0, 2}));
}

}  // namespace
}  // namespace kvcal
