// What a server's version keeps recurrent state in, against what its wheel says.
#include <gtest/gtest.h>

#include "deployment/state_type.h"

namespace kvcal {
namespace {

StateRequest request(const char* server, const char* architecture, const char* members = "{}") {
  Json config = parse_json(members);
  config["architectures"] = {architecture};
  if (!config.contains("dtype")) config["dtype"] = "bfloat16";
  StateRequest r;
  take_config(config, r);
  const NamedEngine named = parse_engine(server);
  r.server = named.server;
  r.version = named.version;
  return r;
}

std::string shown(const StateRequest& r) {
  const ServedState t = state_type(r);
  return t.name + " " + t.conv + " " + std::string(t.decided_by);
}

constexpr const char* kSaysF32 = R"({"text_config": {"mamba_ssm_dtype": "float32"}})";

TEST(ServedState, GoesByClassUnderVllm) {
  EXPECT_EQ(shown(request("vllm@0.33.0", "Qwen3_5ForConditionalGeneration", kSaysF32)), "float32 bfloat16 config.json");
  EXPECT_EQ(shown(request("vllm@0.33.0", "Qwen3_5ForConditionalGeneration")), "bfloat16 bfloat16 default");
  EXPECT_EQ(shown(request("vllm@0.33.0", "Qwen3NextForCausalLM", kSaysF32)), "bfloat16 bfloat16 default");
  EXPECT_EQ(shown(request("vllm@0.33.0", "GraniteMoeHybridForCausalLM")), "bfloat16 bfloat16 default");
  EXPECT_EQ(shown(request("vllm@0.33.0", "JambaForCausalLM", R"({"dtype": "float16"})")), "float16 float16 default");
  EXPECT_EQ(shown(request("vllm@0.33.0", "KimiLinearForCausalLM")), "float32 bfloat16 default");
  EXPECT_EQ(shown(request("vllm@0.22.0", "MiniMaxM1ForCausalLM")), "bfloat16 bfloat16 default");
}

// Nemotron-H had float16 until 0.19.1.
TEST(ServedState, OfNemotronGoesByVersion) {
  const char* said = R"({"mamba_ssm_cache_dtype": "float32"})";
  EXPECT_EQ(shown(request("vllm@0.19.1", "NemotronHForCausalLM")), "float16 bfloat16 default");
  EXPECT_EQ(shown(request("vllm@0.20.0", "NemotronHForCausalLM")), "float32 bfloat16 default");
  EXPECT_EQ(shown(request("vllm@0.19.1", "NemotronHForCausalLM", said)), "float32 bfloat16 config.json");
  EXPECT_EQ(shown(request("vllm@0.12.0", "NemotronHForCausalLM", said)), "bfloat16 bfloat16 default");
  EXPECT_EQ(shown(request("vllm@0.19.1", "NemotronH_Nano_VL_V2", said)), "bfloat16 bfloat16 default");
  EXPECT_EQ(shown(request("vllm@0.20.0", "NemotronH_Nano_VL_V2")), "float32 bfloat16 default");
  EXPECT_EQ(shown(request("vllm@0.33.0", "NemotronH_Nano_Omni_Reasoning_V3")), "bfloat16 bfloat16 default");
}

TEST(ServedState, IsF32UnderSglangUnlessSaid) {
  EXPECT_EQ(shown(request("sglang@0.5.23", "GraniteMoeHybridForCausalLM")), "float32 bfloat16 default");
  const char* said = R"({"mamba_ssm_dtype": "bfloat16", "dtype": "float16"})";
  EXPECT_EQ(shown(request("sglang@0.5.23", "Qwen3NextForCausalLM", said)), "bfloat16 bfloat16 config.json");
  EXPECT_EQ(shown(request("sglang@0.5.8", "Qwen3NextForCausalLM", said)), "float32 bfloat16 default");
  EXPECT_EQ(shown(request("sglang@0.5.23", "GraniteMoeHybridForCausalLM", said)), "float32 bfloat16 default");
  StateRequest r = request("sglang@0.5.23", "Qwen3NextForCausalLM", said);
  r.variable = "float32";
  EXPECT_EQ(shown(r), "float32 bfloat16 environment");
  r.asked = "float16";
  r.variable_of_conv = "float16";
  EXPECT_EQ(shown(r), "float16 float16 option");
}

TEST(ServedState, SaysWhichOptionDoesNothing) {
  const auto ignored = [](const char* server, const char* architecture) {
    StateRequest r = request(server, architecture);
    r.asked = "bfloat16";
    return std::string(state_type(r).ignored);
  };
  EXPECT_EQ(ignored("vllm@0.33.0", "BailingMoeV2_5ForCausalLM"), "mamba-ssm-cache-dtype");
  EXPECT_EQ(ignored("vllm@0.33.0", "BailingMoeV3ForCausalLM"), "mamba-ssm-cache-dtype");
  EXPECT_EQ(ignored("vllm@0.29.0", "KimiLinearForCausalLM"), "mamba-ssm-cache-dtype");
  EXPECT_EQ(ignored("vllm@0.33.0", "KimiLinearForCausalLM"), "");
  EXPECT_EQ(ignored("vllm@0.16.0", "Qwen3NextForCausalLM"), "mamba-ssm-cache-dtype");
  EXPECT_EQ(ignored("vllm@0.17.0", "Qwen3NextForCausalLM"), "");
  EXPECT_EQ(ignored("vllm@0.33.0", "Qwen3_5ForCausalLM"), "");
  EXPECT_EQ(ignored("sglang@0.5.23", "Lfm2ForCausalLM"), "mamba-ssm-dtype");
  EXPECT_EQ(ignored("sglang@0.5.23", "KimiLinearForCausalLM"), "");
}

TEST(ServedState, IsOpenWhereNothingSaysIt) {
  StateRequest r = request("vllm@0.33.0", "UnheardOfForCausalLM");
  EXPECT_EQ(state_type(r).name, "");
  EXPECT_NE(state_type(r).open, "");
  r.asked = "float32";
  EXPECT_EQ(shown(r), "float32 bfloat16 option");
  EXPECT_NE(state_type(request("llama.cpp", "JambaForCausalLM")).open, "");
}

TEST(ServedState, GoesByTheTypeThatTheServerComputesIn) {
  const char* qwen = "Qwen3NextForCausalLM";
  StateRequest r = request("vllm@0.33.0", qwen, R"({"dtype": "float32"})");
  EXPECT_EQ(shown(r), "bfloat16 bfloat16 default");
  EXPECT_EQ(shown(request("vllm@0.33.0", qwen, R"({"dtype": null})")), "bfloat16 bfloat16 default");
  r.capability = 75;
  EXPECT_EQ(shown(r), "float16 float16 default");
  r.computed = "float";
  EXPECT_EQ(shown(r), "float32 float32 default");
  StateRequest half = request("vllm@0.33.0", qwen);
  half.capability = 80;
  EXPECT_EQ(shown(half), "bfloat16 bfloat16 default");
  half.computed = "half";
  EXPECT_EQ(shown(half), "float16 float16 default");
}

TEST(ServedState, IsOpenWhereOptionsStandInAFile) {
  for (const char* server : {"vllm@0.33.0", "sglang@0.5.23"}) {
    StateRequest r = request(server, "Qwen3_5ForConditionalGeneration", kSaysF32);
    r.options_elsewhere = true;
    EXPECT_EQ(state_type(r).name, "") << server;
    EXPECT_NE(state_type(r).open.find("--config"), std::string::npos) << server;
    r.asked = "bfloat16";
    EXPECT_EQ(state_type(r).name, "bfloat16") << server;
  }
}

TEST(StateTypes, AreThoseOfTheVersion) {
  const auto takes = [](const char* server, std::string_view type) {
    const NamedEngine named = parse_engine(server);
    return takes_state_type(named.server, named.version, type);
  };
  EXPECT_EQ(takes("vllm@0.12.0", "float16"), Trait::No);
  EXPECT_EQ(takes("vllm@0.13.0", "float16"), Trait::Yes);
  EXPECT_EQ(takes("vllm@0.21.0", "bfloat16"), Trait::No);
  EXPECT_EQ(takes("vllm", "bfloat16"), Trait::Yes);
  EXPECT_EQ(takes("vllm@0.33.0", "float"), Trait::No);
  EXPECT_EQ(takes("vllm@0.33.0", "fp8_e4m3"), Trait::No);
  EXPECT_EQ(takes("vllm@0.10.0", "float32"), Trait::Unknown);
  EXPECT_EQ(takes("sglang@0.5.8", "float16"), Trait::No);
  EXPECT_EQ(takes("sglang@0.5.9", "float16"), Trait::Yes);
  EXPECT_EQ(takes("sglang@0.5.23", "auto"), Trait::No);
}

TEST(StateSlots, AreThoseOfPrefixCaching) {
  const auto n = [](const char* server, const char* architecture) {
    const NamedEngine named = parse_engine(server);
    return state_slots(named.server, named.version, architecture).n;
  };
  EXPECT_EQ(n("vllm@0.25.1", "Qwen3_5ForCausalLM"), 1);
  EXPECT_EQ(n("vllm@0.28.0", "Qwen3_5ForCausalLM"), 2);
  EXPECT_EQ(n("vllm@0.27.1", "Qwen3_5ForCausalLM"), 1) << "prefix caching is there, and not the default of hybrids";
  EXPECT_EQ(n("sglang@0.5.23", "Qwen3_5ForConditionalGeneration"), 5);
  EXPECT_EQ(n("sglang@0.5.14", "Qwen3_5ForConditionalGeneration"), 5);
  EXPECT_EQ(n("sglang@0.5.13", "Qwen3_5ForConditionalGeneration"), 3);
  EXPECT_EQ(n("sglang@0.5.23", "JambaForCausalLM"), 3);
}

}  // namespace
}  // namespace kvcal
