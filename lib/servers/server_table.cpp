// Sources: the wheels vLLM 0.33.0 and SGLang 0.5.23, whose loaders were executed on tiny checkpoints without a GPU
// (run) or read (the file named). A class that changes its loader in a later release changes its line here.
#include "servers/server_table.h"

#include <array>

namespace kvcal {
namespace {

using enum ScaleSpelling;
using enum Effect;

// vLLM renames scales by one table of patterns for every class (quantization/base_config.py, get_cache_scale_mapper);
// only what the module tree looks like differs.
constexpr Spellings kMapped = set_of(Attention, Projection, Native, Fused, Cache);
constexpr std::array kVllmLoaders = {
    LoaderLine{"mapped", Attention, kMapped, 0, Dropped, Refused, Exact, ""},
    LoaderLine{"latent", Projection, 0, 0, Warned, Refused, Warned,
               "since 0.25 the scale names of latent attention are rewritten twice, so none is loaded"},
    LoaderLine{"latent, unwired", Projection, 0, 0, Warned, Refused, Warned,
               "no quantization config covers the class of its latent attention, so there is no parameter to load "
               "into"},
    LoaderLine{"unwired", Attention, 0, 0, Dropped, Refused, Dropped,
               "the class gives its attention no quantization config, so there is no parameter to load into"},
    LoaderLine{
        "zamba2", Attention, 0, kMapped, Refused, Refused, Refused,
        "its attention modules have other names than the checkpoint's: with any scale the server does not start"},
    LoaderLine{"removed", Attention, 0, 0, Refused, Refused, Refused, "the class was removed in vLLM 0.23"},
};

constexpr std::array kVllmClasses = {
    ClassLine{"BambaForCausalLM", "removed", "models/registry.py"},
    ClassLine{"Cohere2ForCausalLM", "mapped", "", true},
    ClassLine{"CohereForCausalLM", "mapped", "", true},
    ClassLine{"DeepseekV2ForCausalLM", "latent", "models/deepseek_v2.py"},
    ClassLine{"DeepseekV3ForCausalLM", "latent", "", true},
    ClassLine{"Ernie4_5ForCausalLM", "mapped", "", true},
    ClassLine{"Ernie4_5_MoeForCausalLM", "mapped", "", true},
    ClassLine{"Exaone4ForCausalLM", "mapped", "", true},
    ClassLine{"FalconH1ForCausalLM", "mapped", "", true},
    ClassLine{"Gemma2ForCausalLM", "mapped", "", true},
    ClassLine{"Gemma3ForCausalLM", "mapped", "", true},
    ClassLine{"Gemma3ForConditionalGeneration", "mapped", "", true},
    ClassLine{"Gemma4ForCausalLM", "mapped", "", true},
    ClassLine{"Gemma4ForConditionalGeneration", "mapped", "models/gemma4_mm.py"},
    ClassLine{"GemmaForCausalLM", "mapped", "", true},
    ClassLine{"Glm4ForCausalLM", "mapped", "", true},
    ClassLine{"Glm4MoeForCausalLM", "mapped", "", true},
    ClassLine{"Glm4MoeLiteForCausalLM", "latent", "models/glm4_moe_lite.py"},
    ClassLine{"GlmForCausalLM", "mapped", "", true},
    ClassLine{"GptOssForCausalLM", "mapped", "", true},
    ClassLine{"GraniteForCausalLM", "mapped", "", true},
    ClassLine{"GraniteMoeForCausalLM", "mapped", "", true},
    ClassLine{"GraniteMoeHybridForCausalLM", "mapped", "", true},
    ClassLine{"GraniteMoeSharedForCausalLM", "mapped", "", true},
    ClassLine{"HunYuanDenseV1ForCausalLM", "mapped", "", true},
    ClassLine{"HunYuanMoEV1ForCausalLM", "mapped", "", true},
    ClassLine{"JambaForCausalLM", "unwired", "models/jamba.py"},
    ClassLine{"KimiK25ForConditionalGeneration", "latent", "models/kimi_k25.py"},
    ClassLine{"KimiLinearForCausalLM", "latent, unwired", "models/kimi_linear.py"},
    ClassLine{"Lfm2ForCausalLM", "unwired", "models/lfm2.py"},
    ClassLine{"Lfm2MoeForCausalLM", "unwired", "models/lfm2_moe.py"},
    ClassLine{"Lfm2VlForConditionalGeneration", "unwired", "models/lfm2_vl.py"},
    ClassLine{"Llama4ForCausalLM", "mapped", "models/llama4.py"},
    ClassLine{"Llama4ForConditionalGeneration", "mapped", "models/mllama4.py"},
    ClassLine{"LlamaForCausalLM", "mapped", "", true},
    ClassLine{"LlavaForConditionalGeneration", "mapped", "", true},
    ClassLine{"MiniMaxForCausalLM", "removed", "models/registry.py"},
    ClassLine{"MiniMaxM2ForCausalLM", "mapped", "", true},
    ClassLine{"Ministral3ForCausalLM", "mapped", "", true},
    ClassLine{"MinistralForCausalLM", "mapped", "", true},
    ClassLine{"Mistral3ForConditionalGeneration", "mapped", "", true},
    ClassLine{"MistralForCausalLM", "mapped", "", true},
    ClassLine{"MixtralForCausalLM", "mapped", "", true},
    ClassLine{"NemotronHForCausalLM", "mapped", "", true},
    ClassLine{"Olmo2ForCausalLM", "mapped", "", true},
    ClassLine{"Olmo3ForCausalLM", "mapped", "models/transformers/base.py"},
    ClassLine{"OlmoeForCausalLM", "mapped", "", true},
    ClassLine{"Phi3ForCausalLM", "mapped", "", true},
    ClassLine{"Qwen2ForCausalLM", "mapped", "", true},
    ClassLine{"Qwen2MoeForCausalLM", "mapped", "", true},
    ClassLine{"Qwen2VLForConditionalGeneration", "mapped", "models/qwen2_vl.py"},
    ClassLine{"Qwen2_5_VLForConditionalGeneration", "mapped", "models/qwen2_5_vl.py"},
    ClassLine{"Qwen3ForCausalLM", "mapped", "", true},
    ClassLine{"Qwen3MoeForCausalLM", "mapped", "", true},
    ClassLine{"Qwen3NextForCausalLM", "mapped", "", true},
    ClassLine{"Qwen3VLForConditionalGeneration", "mapped", "", true},
    ClassLine{"Qwen3VLMoeForConditionalGeneration", "mapped", "", true},
    ClassLine{"Qwen3_5ForCausalLM", "mapped", "", true},
    ClassLine{"Qwen3_5ForConditionalGeneration", "mapped", "", true},
    ClassLine{"Qwen3_5MoeForCausalLM", "mapped", "", true},
    ClassLine{"Qwen3_5MoeForConditionalGeneration", "mapped", "", true},
    ClassLine{"SeedOssForCausalLM", "mapped", "", true},
    ClassLine{"SmolLM3ForCausalLM", "mapped", "", true},
    ClassLine{"Starcoder2ForCausalLM", "mapped", "", true},
    ClassLine{"Zamba2ForCausalLM", "zamba2", "models/zamba2.py"},
};

// SGLang: every class has a loop of its own. Some rename (maybe_remap_kv_scale_name), some look names up as they are,
// and some of those index a dictionary without asking.
constexpr std::string_view kNoConfig =
    "the class gives its attention (RadixAttention) no quantization config, so there is no parameter to load into";
constexpr Spellings kRemapped = set_of(Attention, Projection, Output, Shared);
constexpr Spellings kProjections = set_of(Projection, Fused, Output);
constexpr std::array kSglangLoaders = {
    LoaderLine{"renaming", Attention, kRemapped, 0, Warned, Warned, Warned, ""},
    LoaderLine{"renaming, quiet", Attention, kRemapped, 0, Dropped, Warned, Dropped, ""},
    LoaderLine{"renaming, quiet query", Attention, kRemapped, 0, Warned, Warned, Dropped, ""},
    LoaderLine{"renaming, no query", Attention, kRemapped, 0, Warned, Warned, Crash, ""},
    LoaderLine{"renaming late", Attention, set_of(Attention, Shared), kProjections, Warned, Warned, Crash, ""},
    LoaderLine{"renaming or native", Attention, set_of(Attention, Projection, Native), 0, Warned, Warned, Warned, ""},
    LoaderLine{"projection or native", Projection, set_of(Projection, Native), set_of(Attention, Fused, Output), Crash,
               Crash, Crash, ""},
    LoaderLine{"native", Native, set_of(Native), 0, Warned, Warned, Warned, ""},
    LoaderLine{"native, no projections", Native, set_of(Native), kProjections, Warned, Warned, Warned, ""},
    LoaderLine{"native, quiet", Native, set_of(Native), 0, Dropped, Dropped, Dropped, ""},
    LoaderLine{"native, quiet, no projections", Native, set_of(Native), kProjections, Dropped, Dropped, Dropped, ""},
    LoaderLine{"native or crash", Native, set_of(Native), 0, Crash, Crash, Crash, ""},
    LoaderLine{"latent", Projection, set_of(Projection, Latent), 0, Warned, Warned, Warned,
               "its pool of latent rows writes them without dividing by the scale, while most backends multiply on "
               "reading: any value but 1 is wrong"},
    LoaderLine{"latent, direct", Latent, set_of(Latent), 0, Dropped, Dropped, Dropped,
               "its pool of latent rows writes them without dividing by the scale, while most backends multiply on "
               "reading: any value but 1 is wrong"},
    LoaderLine{"unwired", Attention, 0, 0, Warned, Warned, Warned, kNoConfig},
    LoaderLine{"unwired, quiet", Attention, 0, 0, Dropped, Dropped, Dropped, kNoConfig},
    LoaderLine{"unwired or crash", Attention, 0, 0, Crash, Crash, Crash, kNoConfig},
    LoaderLine{"unwired, no query", Attention, 0, kProjections, Warned, Warned, Crash, kNoConfig},
    LoaderLine{"fallback", Attention, 0, 0, Refused, Refused, Refused,
               "SGLang has no such class; its Transformers fallback keeps attention outside the layers, and stops at "
               "checkpoint names that the layers do not have"},
};

constexpr std::array kSglangClasses = {
    ClassLine{"BambaForCausalLM", "fallback", "models/transformers.py"},
    ClassLine{"Cohere2ForCausalLM", "renaming late", "", true},
    ClassLine{"CohereForCausalLM", "renaming late", "", true},
    ClassLine{"DeepseekV2ForCausalLM", "latent", "models/deepseek_v2.py"},
    ClassLine{"DeepseekV3ForCausalLM", "latent", "", true},
    ClassLine{"Ernie4_5ForCausalLM", "fallback", "", true},
    ClassLine{"Ernie4_5_MoeForCausalLM", "native or crash", "", true},
    ClassLine{"Exaone4ForCausalLM", "renaming", "models/exaone4.py", false, true},
    ClassLine{"FalconH1ForCausalLM", "unwired or crash", "", true},
    ClassLine{"Gemma2ForCausalLM", "renaming late", "", true},
    ClassLine{"Gemma3ForCausalLM", "renaming, no query", "", true},
    ClassLine{"Gemma3ForConditionalGeneration", "renaming, no query", "", true},
    ClassLine{"Gemma4ForCausalLM", "renaming, quiet", "", true},
    ClassLine{"Gemma4ForConditionalGeneration", "renaming, quiet", "models/gemma4_mm.py"},
    ClassLine{"GemmaForCausalLM", "native or crash", "", true},
    ClassLine{"Glm4ForCausalLM", "native", "", true, true},
    ClassLine{"Glm4MoeForCausalLM", "unwired, quiet", "", true},
    ClassLine{"Glm4MoeLiteForCausalLM", "latent, direct", "models/glm4_moe_lite.py"},
    ClassLine{"GlmForCausalLM", "fallback", "models/transformers.py"},
    ClassLine{"GptOssForCausalLM", "unwired, quiet", "", true},
    ClassLine{"GraniteForCausalLM", "native or crash", "", true},
    ClassLine{"GraniteMoeForCausalLM", "native, no projections", "", true},
    ClassLine{"GraniteMoeHybridForCausalLM", "native or crash", "", true},
    ClassLine{"GraniteMoeSharedForCausalLM", "native, no projections", "", true},
    ClassLine{"HunYuanDenseV1ForCausalLM", "unwired, no query", "", true, true},
    ClassLine{"HunYuanMoEV1ForCausalLM", "unwired, no query", "models/hunyuan.py", false, true},
    ClassLine{"JambaForCausalLM", "fallback", "models/transformers.py"},
    ClassLine{"KimiK25ForConditionalGeneration", "latent", "models/kimi_k25.py"},
    ClassLine{"KimiLinearForCausalLM", "latent", "models/kimi_linear.py"},
    ClassLine{"Lfm2ForCausalLM", "unwired, quiet", "", true},
    ClassLine{"Lfm2MoeForCausalLM", "unwired, quiet", "", true},
    ClassLine{"Lfm2VlForConditionalGeneration", "unwired, quiet", "models/lfm2_vl.py"},
    ClassLine{"Llama4ForCausalLM", "unwired", "", true},
    ClassLine{"Llama4ForConditionalGeneration", "unwired", "models/mllama4.py"},
    ClassLine{"LlamaForCausalLM", "renaming", "", true, true},
    ClassLine{"LlavaForConditionalGeneration", "renaming", "models/llava.py"},
    ClassLine{"MiniMaxForCausalLM", "fallback", "models/transformers.py"},
    ClassLine{"MiniMaxM2ForCausalLM", "renaming, quiet query", "", true},
    ClassLine{"Ministral3ForCausalLM", "renaming", "", true, true},
    ClassLine{"MinistralForCausalLM", "fallback", "", true},
    ClassLine{"Mistral3ForConditionalGeneration", "renaming", "", true},
    ClassLine{"MistralForCausalLM", "renaming", "", true, true},
    ClassLine{"MixtralForCausalLM", "native, no projections", "", true},
    ClassLine{"NemotronHForCausalLM", "renaming or native", "", true},
    ClassLine{"Olmo2ForCausalLM", "native or crash", "", true},
    ClassLine{"Olmo3ForCausalLM", "native or crash", "", true},
    ClassLine{"OlmoeForCausalLM", "native or crash", "", true},
    ClassLine{"Phi3ForCausalLM", "renaming", "", true, true},
    ClassLine{"Qwen2ForCausalLM", "native", "", true, true},
    ClassLine{"Qwen2MoeForCausalLM", "native, quiet", "", true},
    ClassLine{"Qwen2VLForConditionalGeneration", "native or crash", "", true},
    ClassLine{"Qwen2_5_VLForConditionalGeneration", "native, quiet, no projections", "", true},
    ClassLine{"Qwen3ForCausalLM", "unwired", "", true, true},
    ClassLine{"Qwen3MoeForCausalLM", "unwired, quiet", "", true},
    ClassLine{"Qwen3NextForCausalLM", "projection or native", "models/qwen3_next.py"},
    ClassLine{"Qwen3VLForConditionalGeneration", "unwired, quiet", "", true},
    ClassLine{"Qwen3VLMoeForConditionalGeneration", "unwired, quiet", "", true},
    ClassLine{"Qwen3_5ForCausalLM", "renaming or native", "", true},
    ClassLine{"Qwen3_5ForConditionalGeneration", "renaming or native", "", true},
    ClassLine{"Qwen3_5MoeForCausalLM", "renaming or native", "", true},
    ClassLine{"Qwen3_5MoeForConditionalGeneration", "renaming or native", "", true},
    ClassLine{"SeedOssForCausalLM", "fallback", "", true},
    ClassLine{"SmolLM3ForCausalLM", "fallback", "", true},
    ClassLine{"Starcoder2ForCausalLM", "native, quiet, no projections", "", true},
    ClassLine{"Zamba2ForCausalLM", "fallback", "models/transformers.py"},
};

}  // namespace

std::span<const LoaderLine> loader_lines(ServerKind server) {
  return server == ServerKind::Vllm ? std::span<const LoaderLine>(kVllmLoaders)
                                    : std::span<const LoaderLine>(kSglangLoaders);
}

std::span<const ClassLine> class_lines(ServerKind server) {
  return server == ServerKind::Vllm ? std::span<const ClassLine>(kVllmClasses)
                                    : std::span<const ClassLine>(kSglangClasses);
}

}  // namespace kvcal
