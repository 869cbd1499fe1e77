// Sources: the wheels vLLM 0.33.0 and SGLang 0.5.23, whose loaders were executed on tiny checkpoints without a GPU
// (run) or read (the file named). A class that changes its loader in a later release changes its line here.
#include "export/server_table.h"

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
               "since 0.25 the names of latent attention are rewritten twice, and none of them arrives"},
    LoaderLine{"latent, unwired", Projection, 0, 0, Warned, Refused, Warned,
               "its latent attention is of a class that no quantisation config knows, so there is no parameter to load "
               "into"},
    LoaderLine{"unwired", Attention, 0, 0, Dropped, Refused, Dropped,
               "the class gives its attention no quantisation config, so there is no parameter to load into"},
    LoaderLine{"zamba2", Attention, 0, kMapped, Refused, Refused, Refused,
               "its attention modules have other names than the checkpoint's: one scale and the server does not start"},
    LoaderLine{"removed", Attention, 0, 0, Refused, Refused, Refused, "the class was removed in vLLM 0.23"},
};

constexpr std::array kVllmClasses = {
    ClassLine{"BambaForCausalLM", "removed", "models/registry.py"},
    ClassLine{"Cohere2ForCausalLM", "mapped", "models/commandr.py"},
    ClassLine{"CohereForCausalLM", "mapped", "models/commandr.py"},
    ClassLine{"DeepseekV2ForCausalLM", "latent", "models/deepseek_v2.py"},
    ClassLine{"DeepseekV3ForCausalLM", "latent", "", true},
    ClassLine{"Ernie4_5ForCausalLM", "mapped", "models/ernie45.py"},
    ClassLine{"Ernie4_5_MoeForCausalLM", "mapped", "models/ernie45_moe.py"},
    ClassLine{"Exaone4ForCausalLM", "mapped", "models/exaone4.py"},
    ClassLine{"FalconH1ForCausalLM", "mapped", "models/falcon_h1.py"},
    ClassLine{"Gemma2ForCausalLM", "mapped", "models/gemma2.py"},
    ClassLine{"Gemma3ForCausalLM", "mapped", "models/gemma3.py"},
    ClassLine{"Gemma3ForConditionalGeneration", "mapped", "models/gemma3_mm.py"},
    ClassLine{"Gemma4ForCausalLM", "mapped", "models/gemma4.py"},
    ClassLine{"Gemma4ForConditionalGeneration", "mapped", "models/gemma4_mm.py"},
    ClassLine{"GemmaForCausalLM", "mapped", "models/gemma.py"},
    ClassLine{"Glm4ForCausalLM", "mapped", "models/glm4.py"},
    ClassLine{"Glm4MoeForCausalLM", "mapped", "models/glm4_moe.py"},
    ClassLine{"Glm4MoeLiteForCausalLM", "latent", "models/glm4_moe_lite.py"},
    ClassLine{"GlmForCausalLM", "mapped", "models/transformers/base.py"},
    ClassLine{"GptOssForCausalLM", "mapped", "models/gpt_oss.py"},
    ClassLine{"GraniteForCausalLM", "mapped", "models/granite.py"},
    ClassLine{"GraniteMoeForCausalLM", "mapped", "models/granitemoe.py"},
    ClassLine{"GraniteMoeHybridForCausalLM", "mapped", "models/granitemoehybrid.py"},
    ClassLine{"GraniteMoeSharedForCausalLM", "mapped", "models/granitemoeshared.py"},
    ClassLine{"HunYuanDenseV1ForCausalLM", "mapped", "models/transformers/base.py"},
    ClassLine{"HunYuanMoEV1ForCausalLM", "mapped", "models/transformers/base.py"},
    ClassLine{"JambaForCausalLM", "unwired", "models/jamba.py"},
    ClassLine{"KimiK25ForConditionalGeneration", "latent", "models/kimi_k25.py"},
    ClassLine{"KimiLinearForCausalLM", "latent, unwired", "models/kimi_linear.py"},
    ClassLine{"Lfm2ForCausalLM", "unwired", "models/lfm2.py"},
    ClassLine{"Lfm2MoeForCausalLM", "unwired", "models/lfm2_moe.py"},
    ClassLine{"Lfm2VlForConditionalGeneration", "unwired", "models/lfm2_vl.py"},
    ClassLine{"Llama4ForCausalLM", "mapped", "models/llama4.py"},
    ClassLine{"Llama4ForConditionalGeneration", "mapped", "models/mllama4.py"},
    ClassLine{"LlamaForCausalLM", "mapped", "", true},
    ClassLine{"LlavaForConditionalGeneration", "mapped", "models/llava.py"},
    ClassLine{"MiniMaxForCausalLM", "removed", "models/registry.py"},
    ClassLine{"MiniMaxM2ForCausalLM", "mapped", "models/minimax_m2.py"},
    ClassLine{"Ministral3ForCausalLM", "mapped", "models/mistral.py"},
    ClassLine{"MinistralForCausalLM", "mapped", "models/transformers/base.py"},
    ClassLine{"Mistral3ForConditionalGeneration", "mapped", "models/mistral3.py"},
    ClassLine{"MistralForCausalLM", "mapped", "models/mistral.py"},
    ClassLine{"MixtralForCausalLM", "mapped", "models/mixtral.py"},
    ClassLine{"NemotronHForCausalLM", "mapped", "", true},
    ClassLine{"Olmo2ForCausalLM", "mapped", "models/transformers/base.py"},
    ClassLine{"Olmo3ForCausalLM", "mapped", "models/transformers/base.py"},
    ClassLine{"OlmoeForCausalLM", "mapped", "models/olmoe.py"},
    ClassLine{"Phi3ForCausalLM", "mapped", "models/phi3.py"},
    ClassLine{"Qwen2ForCausalLM", "mapped", "models/qwen2.py"},
    ClassLine{"Qwen2MoeForCausalLM", "mapped", "models/qwen2_moe.py"},
    ClassLine{"Qwen2VLForConditionalGeneration", "mapped", "models/qwen2_vl.py"},
    ClassLine{"Qwen2_5_VLForConditionalGeneration", "mapped", "models/qwen2_5_vl.py"},
    ClassLine{"Qwen3ForCausalLM", "mapped", "", true},
    ClassLine{"Qwen3MoeForCausalLM", "mapped", "models/qwen3_moe.py"},
    ClassLine{"Qwen3NextForCausalLM", "mapped", "", true},
    ClassLine{"Qwen3VLForConditionalGeneration", "mapped", "models/qwen3_vl.py"},
    ClassLine{"Qwen3VLMoeForConditionalGeneration", "mapped", "models/qwen3_vl_moe.py"},
    ClassLine{"Qwen3_5ForCausalLM", "mapped", "", true},
    ClassLine{"Qwen3_5ForConditionalGeneration", "mapped", "", true},
    ClassLine{"Qwen3_5MoeForCausalLM", "mapped", "models/qwen3_5.py"},
    ClassLine{"Qwen3_5MoeForConditionalGeneration", "mapped", "models/qwen3_5.py"},
    ClassLine{"SeedOssForCausalLM", "mapped", "models/transformers/base.py"},
    ClassLine{"SmolLM3ForCausalLM", "mapped", "models/transformers/base.py"},
    ClassLine{"Starcoder2ForCausalLM", "mapped", "models/transformers/base.py"},
    ClassLine{"Zamba2ForCausalLM", "zamba2", "models/zamba2.py"},
};

// SGLang: every class has a loop of its own. Some rename (maybe_remap_kv_scale_name), some look names up as they are,
// and some of those index a dictionary without asking.
constexpr std::string_view kNoConfig =
    "the class gives its attention (RadixAttention) no quantisation config, so there is no parameter to load into";
constexpr Spellings kRemapped = set_of(Attention, Projection, Output, Shared);
constexpr Spellings kProjections = set_of(Projection, Fused, Output);
constexpr std::array kSglangLoaders = {
    LoaderLine{"renaming", Attention, kRemapped, 0, Warned, Warned, Warned, ""},
    LoaderLine{"renaming, quiet", Attention, kRemapped, 0, Dropped, Warned, Dropped, ""},
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
    LoaderLine{"fallback", Attention, 0, 0, Dropped, Dropped, Dropped,
               "SGLang has no such class; its Transformers fallback keeps attention outside the layers, where no name "
               "of a checkpoint reaches it"},
};

constexpr std::array kSglangClasses = {
    ClassLine{"BambaForCausalLM", "fallback", "models/transformers.py"},
    ClassLine{"Cohere2ForCausalLM", "renaming late", "models/commandr.py"},
    ClassLine{"CohereForCausalLM", "renaming late", "models/commandr.py"},
    ClassLine{"DeepseekV2ForCausalLM", "latent", "models/deepseek_v2.py"},
    ClassLine{"DeepseekV3ForCausalLM", "latent", "", true},
    ClassLine{"Ernie4_5ForCausalLM", "fallback", "models/transformers.py"},
    ClassLine{"Ernie4_5_MoeForCausalLM", "native or crash", "models/ernie4.py"},
    ClassLine{"Exaone4ForCausalLM", "renaming", "models/exaone4.py", false, true},
    ClassLine{"FalconH1ForCausalLM", "unwired or crash", "models/falcon_h1.py"},
    ClassLine{"Gemma2ForCausalLM", "renaming late", "models/gemma2.py"},
    ClassLine{"Gemma3ForCausalLM", "renaming, no query", "", true},
    ClassLine{"Gemma3ForConditionalGeneration", "renaming, no query", "models/gemma3_mm.py"},
    ClassLine{"Gemma4ForCausalLM", "renaming, quiet", "models/gemma4_causal.py"},
    ClassLine{"Gemma4ForConditionalGeneration", "renaming, quiet", "models/gemma4_mm.py"},
    ClassLine{"GemmaForCausalLM", "native or crash", "models/gemma.py"},
    ClassLine{"Glm4ForCausalLM", "native", "models/glm4.py", false, true},
    ClassLine{"Glm4MoeForCausalLM", "unwired, quiet", "models/glm4_moe.py"},
    ClassLine{"Glm4MoeLiteForCausalLM", "latent, direct", "models/glm4_moe_lite.py"},
    ClassLine{"GlmForCausalLM", "fallback", "models/transformers.py"},
    ClassLine{"GptOssForCausalLM", "unwired, quiet", "", true},
    ClassLine{"GraniteForCausalLM", "native or crash", "models/granite.py"},
    ClassLine{"GraniteMoeForCausalLM", "native, no projections", "models/granitemoe.py"},
    ClassLine{"GraniteMoeHybridForCausalLM", "native or crash", "models/granitemoehybrid.py"},
    ClassLine{"GraniteMoeSharedForCausalLM", "native, no projections", "models/granitemoe.py"},
    ClassLine{"HunYuanDenseV1ForCausalLM", "unwired", "models/hunyuan.py", false, true},
    ClassLine{"HunYuanMoEV1ForCausalLM", "unwired", "models/hunyuan.py", false, true},
    ClassLine{"JambaForCausalLM", "fallback", "models/transformers.py"},
    ClassLine{"KimiK25ForConditionalGeneration", "latent", "models/kimi_k25.py"},
    ClassLine{"KimiLinearForCausalLM", "latent", "models/kimi_linear.py"},
    ClassLine{"Lfm2ForCausalLM", "unwired, quiet", "models/lfm2.py"},
    ClassLine{"Lfm2MoeForCausalLM", "unwired, quiet", "models/lfm2_moe.py"},
    ClassLine{"Lfm2VlForConditionalGeneration", "unwired, quiet", "models/lfm2_vl.py"},
    ClassLine{"Llama4ForCausalLM", "unwired", "models/llama4.py"},
    ClassLine{"Llama4ForConditionalGeneration", "unwired", "models/mllama4.py"},
    ClassLine{"LlamaForCausalLM", "renaming", "", true, true},
    ClassLine{"LlavaForConditionalGeneration", "renaming", "models/llava.py"},
    ClassLine{"MiniMaxForCausalLM", "fallback", "models/transformers.py"},
    ClassLine{"MiniMaxM2ForCausalLM", "renaming, quiet", "models/minimax_m2.py"},
    ClassLine{"Ministral3ForCausalLM", "renaming", "models/ministral3.py", false, true},
    ClassLine{"MinistralForCausalLM", "fallback", "models/transformers.py"},
    ClassLine{"Mistral3ForConditionalGeneration", "renaming", "models/mistral.py"},
    ClassLine{"MistralForCausalLM", "renaming", "", true, true},
    ClassLine{"MixtralForCausalLM", "native, no projections", "models/mixtral.py"},
    ClassLine{"NemotronHForCausalLM", "renaming or native", "", true},
    ClassLine{"Olmo2ForCausalLM", "native or crash", "models/olmo2.py"},
    ClassLine{"Olmo3ForCausalLM", "fallback", "models/transformers.py"},
    ClassLine{"OlmoeForCausalLM", "native or crash", "models/olmoe.py"},
    ClassLine{"Phi3ForCausalLM", "renaming", "models/llama.py", false, true},
    ClassLine{"Qwen2ForCausalLM", "native", "", true, true},
    ClassLine{"Qwen2MoeForCausalLM", "native, quiet", "models/qwen2_moe.py"},
    ClassLine{"Qwen2VLForConditionalGeneration", "native or crash", "models/qwen2_vl.py"},
    ClassLine{"Qwen2_5_VLForConditionalGeneration", "native, quiet", "models/qwen2_5_vl.py"},
    ClassLine{"Qwen3ForCausalLM", "unwired", "", true, true},
    ClassLine{"Qwen3MoeForCausalLM", "unwired, quiet", "", true},
    ClassLine{"Qwen3NextForCausalLM", "projection or native", "models/qwen3_next.py"},
    ClassLine{"Qwen3VLForConditionalGeneration", "unwired, quiet", "models/qwen3_vl.py"},
    ClassLine{"Qwen3VLMoeForConditionalGeneration", "unwired, quiet", "models/qwen3_vl_moe.py"},
    ClassLine{"Qwen3_5ForCausalLM", "renaming or native", "", true},
    ClassLine{"Qwen3_5ForConditionalGeneration", "renaming or native", "", true},
    ClassLine{"Qwen3_5MoeForCausalLM", "renaming or native", "models/qwen3_5_text.py"},
    ClassLine{"Qwen3_5MoeForConditionalGeneration", "renaming or native", "models/qwen3_5.py"},
    ClassLine{"SeedOssForCausalLM", "fallback", "models/transformers.py"},
    ClassLine{"SmolLM3ForCausalLM", "fallback", "models/transformers.py"},
    ClassLine{"Starcoder2ForCausalLM", "native, quiet, no projections", "models/starcoder2.py"},
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
