// What the doctor takes from a config.json: of a model that the program knows, what its spec says.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "doctor/checkpoint_facts.h"

namespace kvcal {
namespace {

Trait hybrid_by(const std::string& golden) {
  Facts facts;
  take_checkpoint(std::filesystem::path(KVCAL_SOURCE_DIR) / "tests/arch/golden" / golden / "config.json", facts);
  return facts.model.hybrid;
}

TEST(DoctorConfig, CallsHybridWhatKeepsRecurrentState) {
  for (const char* hybrid : {"bailing_linear", "bamba", "falcon_h1", "granite_hybrid", "jamba", "kimi_linear", "lfm2",
                             "lfm2_moe", "minimax", "nemotron_h", "qwen3_5", "qwen3_5_vl", "qwen3_next", "zamba2"})
    EXPECT_EQ(hybrid_by(hybrid), Trait::Yes) << hybrid;
  for (const char* plain :
       {"deepseek_v3", "gemma3", "gpt_oss", "granite_swa", "llama4", "mixtral", "qwen3", "qwen3_moe"})
    EXPECT_EQ(hybrid_by(plain), Trait::No) << plain;
}

TEST(DoctorConfig, GoesByTheNamesOfLayersWhereTheModelIsNotKnown) {
  const std::pair<Json, Trait> configs[] = {
      {{{"model_type", "new"}, {"layer_types", {"mamba", "attention"}}}, Trait::Yes},
      {{{"model_type", "new"}, {"attn_layer_indices", {1, 3}}}, Trait::Yes},
      {{{"model_type", "new"}, {"text_config", {{"full_attention_interval", 4}}}}, Trait::Yes},
      {{{"model_type", "new"}, {"layer_group_size", 5}}, Trait::Yes},
      {{{"model_type", "new"}, {"layer_types", {"full_attention", "sliding_attention"}}}, Trait::No}};
  for (const auto& [config, expected] : configs) {
    ModelTraits model;
    take_config(config, model);
    EXPECT_EQ(model.hybrid, expected) << config.dump();
  }
}

}  // namespace
}  // namespace kvcal
