// The table of servers against the facts that were measured by executing their loaders, and against itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "harness/message_of.h"
#include "model/architecture.h"
#include "servers/server_table.h"

namespace kvcal {
namespace {

using enum ScaleSpelling;

const Server kVllm = verified_server(ServerKind::Vllm), kSglang = verified_server(ServerKind::Sglang);

TEST(ServerSupport, KnowsEveryClassThatIsCalibrated) {
  std::vector<std::string_view> listed, ours;
  for (const ClassLine& line : class_lines()) listed.push_back(line.architecture);
  for (const Architecture& a : architectures()) ours.push_back(a.name);
  EXPECT_EQ(listed, ours);
  const auto has_source = [](ServerKind kind, std::string_view loader) {
    return !std::ranges::find(loader_lines(kind), loader, &LoaderLine::name)->source.empty();
  };
  for (const ClassLine& line : class_lines())
    for (const ServerKind kind : {ServerKind::Vllm, ServerKind::Sglang})
      EXPECT_TRUE(!line.by(kind).source.empty() || has_source(kind, line.by(kind).loader)) << line.architecture;
}

TEST(ServerSupport, UsesEveryLineOfItsTable) {
  for (const ServerKind kind : {ServerKind::Vllm, ServerKind::Sglang}) {
    std::set<std::string_view> used, there;
    for (const ClassLine& line : class_lines()) used.insert(line.by(kind).loader);
    for (const MtpLine& line : mtp_lines())
      if (kind == ServerKind::Vllm) used.insert(line.vllm.loader);
    for (const LoaderLine& line : loader_lines(kind)) there.insert(line.name);
    EXPECT_EQ(used, there);
    for (const LoaderLine& line : loader_lines(kind)) {
      EXPECT_TRUE(line.accepts == 0 || (line.accepts & set_of(line.write)) != 0) << line.name;
      EXPECT_TRUE((line.accepts & line.crashes) == 0) << line.name;
      EXPECT_TRUE(line.accepts != 0 || !line.why_not.empty()) << line.name;
    }
  }
}

struct Fact {
  Server server;
  std::string_view architecture;
  KvCarrier carrier;
  ScaleSpelling spelling;
  char site;
  Effect effect;
};

// loader by loader as executed on vLLM 0.33.0 and SGLang 0.5.23
const std::vector<Fact> kFacts = {
    {kVllm, "LlamaForCausalLM", KvCarrier::CompressedTensors, Attention, 'k', Effect::Exact},
    {kVllm, "LlamaForCausalLM", KvCarrier::CompressedTensors, Attention, 'q', Effect::Exact},
    {kVllm, "LlamaForCausalLM", KvCarrier::CompressedTensors, Projection, 'v', Effect::Exact},
    {kVllm, "LlamaForCausalLM", KvCarrier::CompressedTensors, Projection, 'q', Effect::Dropped},
    {kVllm, "LlamaForCausalLM", KvCarrier::CompressedTensors, Native, 'k', Effect::Exact},
    {kVllm, "LlamaForCausalLM", KvCarrier::CompressedTensors, Shared, 'k', Effect::KeyOnly},
    {kVllm, "LlamaForCausalLM", KvCarrier::PerHead, Attention, 'k', Effect::Exact},
    {kVllm, "LlamaForCausalLM", KvCarrier::None, Attention, 'k', Effect::Refused},
    {kVllm, "LlamaForCausalLM", KvCarrier::Other, Attention, 'k', Effect::Dropped},
    {kVllm, "LlamaForCausalLM", KvCarrier::Fp8, Attention, 'k', Effect::Rounded},
    {kVllm, "LlamaForCausalLM", KvCarrier::Fp8, Output, 'k', Effect::Rounded},
    {kVllm, "LlamaForCausalLM", KvCarrier::ModelOpt, Projection, 'k', Effect::Rounded},
    {kVllm, "LlamaForCausalLM", KvCarrier::ModelOpt, Attention, 'k', Effect::Rounded},
    {kVllm, "Qwen3_5ForConditionalGeneration", KvCarrier::CompressedTensors, Attention, 'v', Effect::Exact},
    {kVllm, "NemotronHForCausalLM", KvCarrier::ModelOpt, Projection, 'k', Effect::Rounded},
    {kVllm, "DeepseekV3ForCausalLM", KvCarrier::ModelOpt, Projection, 'k', Effect::Warned},
    {kVllm, "DeepseekV3ForCausalLM", KvCarrier::CompressedTensors, Native, 'k', Effect::Warned},
    {kSglang, "LlamaForCausalLM", KvCarrier::CompressedTensors, Attention, 'k', Effect::Exact},
    {kSglang, "LlamaForCausalLM", KvCarrier::CompressedTensors, Native, 'k', Effect::Warned},
    {kSglang, "LlamaForCausalLM", KvCarrier::CompressedTensors, Shared, 'k', Effect::Exact},
    {kSglang, "LlamaForCausalLM", KvCarrier::None, Attention, 'k', Effect::Warned},
    {kSglang, "LlamaForCausalLM", KvCarrier::PerHead, Attention, 'k', Effect::Warned},
    {kSglang, "LlamaForCausalLM", KvCarrier::CompressedTensors, Attention, 'q', Effect::Warned},
    {kSglang, "LlamaForCausalLM", KvCarrier::ModelOpt, Projection, 'k', Effect::Exact},
    {kSglang, "Gemma3ForCausalLM", KvCarrier::CompressedTensors, Attention, 'q', Effect::Crash},
    {kSglang, "Gemma3ForCausalLM", KvCarrier::ModelOpt, Projection, 'k', Effect::Exact},
    {kSglang, "Qwen2ForCausalLM", KvCarrier::CompressedTensors, Attention, 'k', Effect::Warned},
    {kSglang, "Qwen2ForCausalLM", KvCarrier::CompressedTensors, Native, 'k', Effect::Exact},
    {kSglang, "Qwen3ForCausalLM", KvCarrier::CompressedTensors, Attention, 'k', Effect::Warned},
    {kSglang, "Qwen3MoeForCausalLM", KvCarrier::CompressedTensors, Attention, 'k', Effect::Dropped},
    {kSglang, "GptOssForCausalLM", KvCarrier::ModelOpt, Native, 'k', Effect::Dropped},
    {kSglang, "DeepseekV3ForCausalLM", KvCarrier::Fp8, Projection, 'k', Effect::Exact},
    {kSglang, "DeepseekV3ForCausalLM", KvCarrier::Fp8, Latent, 'k', Effect::Exact},
    {kSglang, "DeepseekV3ForCausalLM", KvCarrier::Fp8, Attention, 'k', Effect::Warned},
    {kSglang, "Qwen3_5ForConditionalGeneration", KvCarrier::CompressedTensors, Attention, 'k', Effect::Exact},
    {kSglang, "NemotronHForCausalLM", KvCarrier::CompressedTensors, Projection, 'k', Effect::Exact},
    // read, not executed
    {kSglang, "Qwen3NextForCausalLM", KvCarrier::CompressedTensors, Attention, 'k', Effect::Crash},
    {kSglang, "Gemma2ForCausalLM", KvCarrier::ModelOpt, Projection, 'k', Effect::Crash},
    {kSglang, "GemmaForCausalLM", KvCarrier::None, Native, 'k', Effect::Crash},
    {kVllm, "Zamba2ForCausalLM", KvCarrier::CompressedTensors, Attention, 'k', Effect::Refused},
    {kVllm, "JambaForCausalLM", KvCarrier::CompressedTensors, Attention, 'k', Effect::Dropped},
    // read, not executed: attention modules that are not called self_attn
    {kVllm, "GPT2LMHeadModel", KvCarrier::CompressedTensors, Native, 'k', Effect::Exact},
    {kVllm, "GPT2LMHeadModel", KvCarrier::CompressedTensors, Attention, 'k', Effect::Dropped},
    {kVllm, "GPTNeoXForCausalLM", KvCarrier::CompressedTensors, Attention, 'k', Effect::Exact},
    {kVllm, "GPTNeoXForCausalLM", KvCarrier::CompressedTensors, Projection, 'k', Effect::Dropped},
    {kVllm, "FalconForCausalLM", KvCarrier::Fp8, Output, 'k', Effect::Dropped},
};

TEST(ServerSupport, SaysWhatTheLoadersDid) {
  for (const Fact& f : kFacts) {
    const ServerSupport s = server_support(f.server, f.architecture, f.carrier);
    EXPECT_EQ(name_of(effect_of(s, f.spelling, f.site)), name_of(f.effect))
        << str(f.server) << " " << f.architecture << " " << name_of(f.carrier) << " "
        << scale_suffix(f.spelling, f.site);
  }
}

TEST(ServerSupport, WritesWhatLoads) {
  for (const Server& server : {kVllm, kSglang})
    for (const Architecture& a : architectures())
      for (const KvCarrier carrier : {KvCarrier::CompressedTensors, KvCarrier::Fp8, KvCarrier::ModelOpt}) {
        const ServerSupport s = server_support(server, a.name, carrier);
        EXPECT_EQ(s.loads, s.why_not.empty()) << a.name;
        EXPECT_TRUE(!s.loads || (loads(effect_of(s, s.write, 'k')) && loads(effect_of(s, s.write, 'v')))) << a.name;
        const bool unknown = s.loader.ends_with("sparse") || (server == kSglang && s.loader.starts_with("latent"));
        EXPECT_EQ(s.plugin.empty(), s.loads || !s.served || unknown) << a.name;
      }
  EXPECT_EQ(scale_tensor(server_support(kSglang, "Qwen2ForCausalLM", KvCarrier::Fp8), "model.layers.3.self_attn", 'v'),
            "model.layers.3.self_attn.attn.v_scale");
  const ServerSupport none = server_support(kVllm, "LlamaForCausalLM", KvCarrier::None);
  EXPECT_FALSE(none.loads);
  EXPECT_EQ(none.plugin, "vllm-kv-cache-scales");
}

TEST(ServerSupport, TellsWhereTheSideFileIsRead) {
  std::set<std::string_view> with;
  for (const Architecture& a : architectures())
    if (server_support(kSglang, a.name, KvCarrier::None).json) with.insert(a.name);
  EXPECT_EQ(with, (std::set<std::string_view>{"ApertusForCausalLM", "ArceeForCausalLM", "Exaone4ForCausalLM",
                                              "Glm4ForCausalLM", "HunYuanDenseV1ForCausalLM", "HunYuanMoEV1ForCausalLM",
                                              "IQuestCoderForCausalLM", "InternLM3ForCausalLM", "LlamaForCausalLM",
                                              "MiMoForCausalLM", "MiMoV2FlashForCausalLM", "Ministral3ForCausalLM",
                                              "MistralForCausalLM", "OPTForCausalLM", "Phi3ForCausalLM",
                                              "Qwen2ForCausalLM", "Qwen3ForCausalLM"}));
}

TEST(ServerSupport, ReadsServers) {
  EXPECT_EQ(parse_server("vllm"), kVllm);
  EXPECT_EQ(parse_server("vllm@0.33"), (Server{ServerKind::Vllm, 0, 33, -1}));
  EXPECT_EQ(str(parse_server("sglang@0.5.23")), "sglang@0.5.23");
  for (const char* wrong :
       {"vllm@", "vllm@0.", "vllm@0.33.0.1", "vllm@x", "vllm@-1", "vllm@0.33rc", "vllm@99999999999"})
    EXPECT_NE(message_of([&] { parse_server(wrong); }).find("expected a version"), std::string::npos) << wrong;
  EXPECT_NE(message_of([&] { parse_server("sglan@1"); }).find("did you mean 'sglang'"), std::string::npos);
  EXPECT_NE(message_of([&] { server_support(kVllm, "LlamaForCausalLN", KvCarrier::None); }).find("LlamaForCausalLM"),
            std::string::npos);
}

TEST(ServerSupport, SaysWhatIsKnownOfOtherVersions) {
  const auto notes = [](const char* server) { return version_notes(parse_server(server)); };
  EXPECT_TRUE(notes("vllm").empty());
  EXPECT_TRUE(notes("vllm@0.33").empty());
  EXPECT_TRUE(notes("sglang@0.5").empty());
  EXPECT_EQ(notes("vllm@0.34").size(), 1u);
  EXPECT_EQ(notes("vllm@0.28").size(), 1u);
  EXPECT_EQ(notes("vllm@0.24.1").size(), 2u);
  EXPECT_EQ(notes("vllm@0.19.1").size(), 3u);
  EXPECT_EQ(notes("vllm@0.6.6").size(), 4u);
  EXPECT_EQ(notes("sglang@0.5.20").size(), 2u);
  EXPECT_EQ(notes("sglang@0.6").size(), 1u);
}

TEST(ServerSupport, SpellsAndReadsSuffixes) {
  EXPECT_EQ(scale_suffix(Projection, 'v'), ".v_proj.v_scale");
  EXPECT_EQ(scale_suffix(Cache, 'q'), ".q.scale");
  for (int i = 0; i <= static_cast<int>(Latent); ++i)
    for (const char site : {'k', 'v', 'q'})
      EXPECT_EQ(spelling_of(scale_suffix(static_cast<ScaleSpelling>(i), site)), static_cast<ScaleSpelling>(i));
  EXPECT_THROW(spelling_of(".weight_scale"), Error);
}

}  // namespace
}  // namespace kvcal
