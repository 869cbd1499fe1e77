// Sources: the wheels vLLM 0.33.0 and SGLang 0.5.23, whose loaders were executed on tiny checkpoints without a GPU
// (run) or read (the file named). A class that changes its loader in a later release changes its line here.
#include "servers/server_table.h"

#include <array>

namespace kvcal {
namespace {

using enum ScaleSpelling;
using enum Effect;
using enum AscendLoading;

// vLLM renames scales by one table of patterns for every class (quantization/base_config.py, get_cache_scale_mapper);
// only what the module tree looks like differs. Spellings of projections and caches are known below "self_attn" alone,
// and a module that is called "attn" itself keeps its names.
constexpr Spellings kMapped = set_of(Attention, Projection, Native, Fused, Cache);
constexpr std::array kVllmLoaders = {
    LoaderLine{"mapped", Attention, kMapped, 0, Dropped, Refused, Exact, ""},
    LoaderLine{"mapped, other module", Attention, set_of(Attention, Native), 0, Dropped, Refused, Exact, ""},
    LoaderLine{"native", Native, set_of(Native), 0, Dropped, Refused, Exact, ""},
    LoaderLine{"native or crash", Native, set_of(Native), 0, Crash, Crash, Crash, ""},
    LoaderLine{"latent", Projection, 0, 0, Warned, Refused, Warned,
               "since 0.25 the scale names of latent attention are rewritten twice, so none is loaded"},
    LoaderLine{"latent, asking", Projection, 0, 0, Warned, Warned, Warned,
               "the scale names of latent attention are rewritten twice, so none is loaded"},
    LoaderLine{"latent, unwired", Projection, 0, 0, Warned, Refused, Warned,
               "no quantization config covers the class of its latent attention, so there is no parameter to load "
               "into"},
    LoaderLine{"latent, sparse", Projection, 0, 0, Warned, Warned, Warned,
               "scale names of latent attention are rewritten twice, so none is loaded; on Hopper its FP8 rows have "
               "scales of their own (fp8_ds_mla)"},
    LoaderLine{"sparse", Attention, 0, 0, Warned, Warned, Warned,
               "its sparse layers have scales outside the tree of parameters, which no checkpoint reaches"},
    LoaderLine{"mistral files", Attention, 0, 0, Refused, Refused, Refused,
               "the class reads checkpoints under Mistral's own names of tensors only"},
    LoaderLine{"unwired", Attention, 0, 0, Dropped, Refused, Dropped,
               "the class gives its attention no quantization config, so there is no parameter to load into"},
    LoaderLine{
        "zamba2", Attention, 0, kMapped, Refused, Refused, Refused,
        "its attention modules have other names than the checkpoint's: with any scale the server does not start"},
    LoaderLine{"removed", Attention, 0, 0, Refused, Refused, Refused, "the class was removed in vLLM 0.24", false,
               "models/registry.py"},
    LoaderLine{"no class", Attention, 0, 0, Refused, Refused, Refused, "vLLM 0.33.0 has no such class of its own",
               false, "models/registry.py"},
    LoaderLine{"unloadable", Attention, 0, 0, Refused, Refused, Refused,
               "vLLM 0.33.0 stops at the convolution's filters in any checkpoint of the class", false,
               "layers/mamba/gdn/olmo_gdn_linear_attn.py"},
};

// SGLang: every class has a loop of its own. Some rename (maybe_remap_kv_scale_name), some look names up as they are,
// and some of those index a dictionary without asking.
constexpr std::string_view kNoConfig =
    "the class gives its attention (RadixAttention) no quantization config, so there is no parameter to load into";
constexpr std::string_view kLatentPool =
    "its pool of latent rows writes them without dividing by the scale; flashmla and trtllm_mla multiply on reading, "
    "where any value but 1 is wrong, fa3 and flashinfer do not, triton does both";
constexpr Spellings kRemapped = set_of(Attention, Projection, Output, Shared);
constexpr Spellings kProjections = set_of(Projection, Fused, Output);
constexpr std::array kSglangLoaders = {
    LoaderLine{"renaming", Attention, kRemapped, 0, Warned, Warned, Warned, ""},
    LoaderLine{"renaming, asking the config", Attention, kRemapped, 0, Warned, Warned, Warned, "", true},
    LoaderLine{"renaming, quiet", Attention, kRemapped, 0, Dropped, Warned, Dropped, ""},
    LoaderLine{"renaming, quiet query", Attention, kRemapped, 0, Warned, Warned, Dropped, ""},
    LoaderLine{"renaming, neither shared nor output", Attention, set_of(Attention, Projection), 0, Warned, Warned,
               Warned, ""},
    LoaderLine{"renaming, no query", Attention, kRemapped, 0, Warned, Warned, Crash, ""},
    LoaderLine{"renaming late", Attention, set_of(Attention, Shared), kProjections, Warned, Warned, Crash, ""},
    LoaderLine{"renaming late, quiet", Attention, set_of(Attention, Shared), 0, Warned, Warned, Dropped, ""},
    LoaderLine{"renaming or native", Attention, set_of(Attention, Projection, Native), 0, Warned, Warned, Warned, ""},
    LoaderLine{"projection or native", Projection, set_of(Projection, Native), set_of(Attention, Fused, Output), Crash,
               Crash, Crash, ""},
    LoaderLine{"native", Native, set_of(Native), 0, Warned, Warned, Warned, ""},
    LoaderLine{"native, no projections", Native, set_of(Native), kProjections, Warned, Warned, Warned, ""},
    LoaderLine{"native, no parts", Native, set_of(Native), set_of(Projection, Output), Warned, Warned, Warned, ""},
    LoaderLine{"native, quiet", Native, set_of(Native), 0, Dropped, Dropped, Dropped, ""},
    LoaderLine{"native, quiet, no projections", Native, set_of(Native), kProjections, Dropped, Dropped, Dropped, ""},
    LoaderLine{"native or crash", Native, set_of(Native), 0, Crash, Crash, Crash, ""},
    LoaderLine{"native or crash, asking the config", Native, set_of(Native), 0, Crash, Crash, Crash, "", true},
    LoaderLine{"latent", Projection, set_of(Projection, Latent), 0, Warned, Warned, Warned, kLatentPool},
    LoaderLine{"latent, direct", Latent, set_of(Latent), 0, Dropped, Dropped, Dropped, kLatentPool},
    LoaderLine{
        "latent, sparse", Projection, set_of(Projection, Latent), 0, Warned, Warned, Warned,
        "its FP8 pool of latent rows gives every 128 channels of a row a scale of their own, or, with the trtllm "
        "backends, writes them without dividing by one, while these multiply on reading: any value but 1 is wrong "
        "there"},
    LoaderLine{"unwired", Attention, 0, 0, Warned, Warned, Warned, kNoConfig},
    LoaderLine{"unwired, quiet", Attention, 0, 0, Dropped, Dropped, Dropped, kNoConfig},
    LoaderLine{"unwired or crash", Attention, 0, 0, Crash, Crash, Crash, kNoConfig},
    LoaderLine{"unwired, no query", Attention, 0, kProjections, Warned, Warned, Crash, kNoConfig},
    LoaderLine{"fallback", Attention, 0, 0, Refused, Refused, Refused,
               "SGLang has no such class; its Transformers fallback keeps attention outside the layers, and stops at "
               "checkpoint names that the layers do not have",
               false, "models/transformers.py"},
};

// Under vLLM, then under SGLang, then the INT8 scales of vLLM-Ascend 0.30.0rc2 where vLLM "maps": Merged and NotRead as
// the classes of the vLLM 0.30.0 that it patches have it.
constexpr std::array kClasses = {
    ClassLine{"AfmoeForCausalLM", {"mapped", "afmoe"}, {"native, quiet", "afmoe"}, Merged},
    ClassLine{"ApertusForCausalLM", {"mapped", "apertus"}, {"renaming", "apertus", true}, Merged},
    ClassLine{"ArceeForCausalLM", {"mapped", "transformers/base"}, {"renaming", "arcee", true}, Merged},
    ClassLine{"BailingMoEForCausalLM", {"no class"}, {"unwired, quiet", "bailing_moe"}},
    ClassLine{"BailingMoeForCausalLM", {"unwired", "bailing_moe"}, {"unwired, quiet", "bailing_moe"}},
    ClassLine{"BailingMoeV2ForCausalLM", {"unwired", "bailing_moe"}, {"unwired, quiet", "bailing_moe"}},
    ClassLine{"BailingMoeV2_5ForCausalLM",
              {"latent, asking", "bailing_moe_linear"},
              {"latent, direct", "bailing_moe_linear"}},
    ClassLine{"BambaForCausalLM", {"removed"}, {"fallback"}},
    ClassLine{"Cohere2ForCausalLM", {"mapped", kRun}, {"renaming late", kRun}, Merged},
    ClassLine{"Cohere2MoeForCausalLM", {"mapped", "cohere2_moe"}, {"native, quiet", "cohere2_moe"}, Merged},
    ClassLine{"CohereForCausalLM", {"mapped", kRun}, {"renaming late", kRun}, Merged},
    ClassLine{"CwmForCausalLM", {"mapped", kRun}, {"fallback", kRun}},
    ClassLine{"DeciLMForCausalLM", {"mapped", "nemotron_nas"}, {"renaming, asking the config", "nemotron_nas"}, Merged},
    ClassLine{"DeepseekForCausalLM", {"mapped", "deepseek_v2"}, {"native or crash", "deepseek"}},
    ClassLine{"DeepseekOCR2ForCausalLM", {"mapped", "deepseek_ocr2"}, {"native or crash", "deepseek_ocr"}},
    ClassLine{"DeepseekOCRForCausalLM", {"mapped", "deepseek_ocr"}, {"native or crash", "deepseek_ocr"}},
    ClassLine{"DeepseekV2ForCausalLM", {"latent", "deepseek_v2"}, {"latent", "deepseek_v2"}},
    ClassLine{
        "DeepseekV32ForCausalLM", {"latent, sparse", "deepseek_v32/nvidia/model"}, {"latent, sparse", "deepseek_v2"}},
    ClassLine{"DeepseekV3ForCausalLM", {"latent", kRun}, {"latent", kRun}},
    ClassLine{"DeepseekVLV2ForCausalLM", {"mapped", "deepseek_vl2"}, {"unwired or crash", "deepseek_vl2"}},
    ClassLine{"Dots1ForCausalLM", {"removed"}, {"fallback"}},
    ClassLine{"DotsOCRForCausalLM", {"mapped", "dots_ocr"}, {"native", "dots_ocr"}},
    ClassLine{"Ernie4_5ForCausalLM", {"mapped", kRun}, {"fallback", kRun}},
    ClassLine{"Ernie4_5_ForCausalLM", {"no class"}, {"native or crash", "ernie4"}},
    ClassLine{"Ernie4_5_MoeForCausalLM", {"mapped", kRun}, {"native or crash", kRun}},
    ClassLine{"Exaone4ForCausalLM", {"mapped", kRun}, {"renaming", "exaone4", true}, Merged},
    ClassLine{"Exaone4_5_ForConditionalGeneration", {"mapped", "exaone4_5"}, {"fallback"}},
    ClassLine{"ExaoneForCausalLM", {"mapped, other module", "exaone"}, {"native or crash", "exaone"}, Merged},
    ClassLine{"ExaoneMoEForCausalLM", {"mapped", "exaone_moe"}, {"unwired, quiet", "exaone_moe"}, NotRead},
    ClassLine{"ExaoneMoeForCausalLM", {"mapped", "exaone_moe"}, {"unwired, quiet", "exaone_moe"}, Merged},
    ClassLine{"FalconForCausalLM", {"mapped, other module", "falcon"}, {"fallback"}},
    ClassLine{"FalconH1ForCausalLM", {"mapped", kRun}, {"unwired or crash", kRun}, Merged},
    ClassLine{"FlexOlmoForCausalLM", {"mapped", kRun}, {"fallback"}, NotRead},
    ClassLine{"GPT2LMHeadModel", {"native", "gpt2"}, {"native or crash", "gpt2"}},
    ClassLine{"GPTNeoXForCausalLM", {"mapped, other module", "transformers/base"}, {"fallback"}},
    ClassLine{"Gemma2ForCausalLM", {"mapped", kRun}, {"renaming late", kRun}, Merged},
    ClassLine{"Gemma3ForCausalLM", {"mapped", kRun}, {"renaming, no query", kRun}, Merged},
    ClassLine{"Gemma3ForConditionalGeneration", {"mapped", kRun}, {"renaming, no query", kRun}},
    ClassLine{"Gemma3nForCausalLM", {"mapped", kRun}, {"renaming late, quiet", "gemma3n_causal"}},
    ClassLine{"Gemma3nForConditionalGeneration", {"mapped", "gemma3n_mm"}, {"renaming late", "gemma3n_mm"}},
    ClassLine{"Gemma4ForCausalLM", {"mapped", kRun}, {"renaming, quiet", kRun}, NotRead},
    ClassLine{"Gemma4ForConditionalGeneration", {"mapped", "gemma4_mm"}, {"renaming, quiet", "gemma4_mm"}, NotRead},
    ClassLine{"Gemma4UnifiedForConditionalGeneration",
              {"mapped", "gemma4_unified"},
              {"native, quiet", "gemma4_unified"},
              NotRead},
    ClassLine{"GemmaForCausalLM", {"mapped", kRun}, {"native or crash", kRun}, Merged},
    ClassLine{"Glm4ForCausalLM", {"mapped", kRun}, {"native", kRun, true}},
    ClassLine{"Glm4MoeForCausalLM", {"mapped", kRun}, {"unwired, quiet", kRun}},
    ClassLine{"Glm4MoeLiteForCausalLM", {"latent", "glm4_moe_lite"}, {"latent, direct", "glm4_moe_lite"}},
    ClassLine{"Glm4vForConditionalGeneration", {"mapped", "glm4_1v"}, {"native, quiet", "glm4v"}},
    ClassLine{"Glm4vMoeForConditionalGeneration", {"mapped", "glm4_1v"}, {"unwired, quiet", "glm4v_moe"}},
    ClassLine{"GlmForCausalLM", {"mapped", kRun}, {"fallback"}},
    ClassLine{"GlmMoeDsaForCausalLM", {"latent, sparse", "deepseek_v32/nvidia/model"}, {"latent, sparse", "glm4_moe"}},
    ClassLine{"GptOssForCausalLM", {"mapped", kRun}, {"unwired, quiet", kRun}},
    ClassLine{"GraniteForCausalLM", {"mapped", kRun}, {"native or crash", kRun}},
    ClassLine{"GraniteMoeForCausalLM", {"mapped", kRun}, {"native, no projections", kRun}},
    ClassLine{"GraniteMoeHybridForCausalLM", {"mapped", kRun}, {"native or crash, asking the config", kRun}},
    ClassLine{"GraniteMoeSWAForCausalLM", {"mapped", "granitemoeshared"}, {"native, no projections", "granitemoe"}},
    ClassLine{"GraniteMoeSharedForCausalLM", {"mapped", kRun}, {"native, no projections", kRun}},
    ClassLine{"GraniteSWAForCausalLM", {"mapped", "granite"}, {"native or crash", "granite"}},
    ClassLine{"HYV3ForCausalLM", {"mapped", "hy_v3"}, {"unwired, quiet", "hunyuan_v3"}},
    ClassLine{"HunYuanDenseV1ForCausalLM", {"mapped", kRun}, {"unwired, no query", kRun, true}, NotRead},
    ClassLine{"HunYuanMoEV1ForCausalLM", {"mapped", kRun}, {"unwired, no query", "hunyuan", true}, NotRead},
    ClassLine{"IQuestCoderForCausalLM", {"mapped", "llama"}, {"renaming", "llama", true}},
    ClassLine{"Idefics3ForConditionalGeneration", {"mapped", "idefics3"}, {"fallback"}},
    ClassLine{"InternLM3ForCausalLM", {"mapped", "llama"}, {"renaming", "llama", true}},
    ClassLine{"InternS2PreviewForConditionalGeneration",
              {"mapped", "interns2_preview"},
              {"renaming or native", "interns2preview"}},
    ClassLine{"InternVLChatModel", {"mapped", "internvl"}, {"native or crash", "internvl"}},
    ClassLine{"InternVLForConditionalGeneration", {"mapped", "interns1"}, {"fallback"}},
    ClassLine{"Jais2ForCausalLM", {"mapped", "transformers/base"}, {"fallback"}, Merged},
    ClassLine{"JambaForCausalLM", {"unwired", "jamba"}, {"fallback"}},
    ClassLine{"KimiK25ForConditionalGeneration", {"latent", "kimi_k25"}, {"latent", "kimi_k25"}},
    ClassLine{"KimiLinearForCausalLM", {"latent, unwired", "kimi_linear"}, {"latent", "kimi_linear"}},
    ClassLine{"KimiVLForConditionalGeneration", {"latent", "kimi_vl"}, {"latent", "kimi_vl"}},
    ClassLine{"LLaMAForCausalLM", {"mapped", "llama"}, {"fallback"}},
    ClassLine{"Lfm2ForCausalLM", {"unwired", "lfm2"}, {"unwired, quiet", kRun}},
    ClassLine{"Lfm2MoeForCausalLM", {"unwired", "lfm2_moe"}, {"unwired, quiet", kRun}},
    ClassLine{"Lfm2VlForConditionalGeneration", {"unwired", "lfm2_vl"}, {"unwired, quiet", "lfm2_vl"}},
    ClassLine{"LightOnOCRForConditionalGeneration", {"mapped", "lightonocr"}, {"unwired", "lightonocr"}},
    ClassLine{"Llama4ForCausalLM", {"mapped", "llama4"}, {"unwired", kRun}},
    ClassLine{"Llama4ForConditionalGeneration", {"mapped", "mllama4"}, {"unwired", "mllama4"}, NotRead},
    ClassLine{"LlamaForCausalLM", {"mapped", kRun}, {"renaming", kRun, true}},
    ClassLine{"LlavaForConditionalGeneration", {"mapped", kRun}, {"renaming", "llava"}},
    ClassLine{"LlavaNextForConditionalGeneration", {"mapped", "llava_next"}, {"fallback"}},
    ClassLine{"LlavaOnevisionForConditionalGeneration", {"mapped", "llava_onevision"}, {"fallback"}},
    ClassLine{"MellumForCausalLM", {"mapped", "transformers/base"}, {"unwired, quiet", "mellum"}},
    ClassLine{"MiMoForCausalLM", {"mapped", "mimo"}, {"native or crash", "mimo", true}},
    ClassLine{"MiMoV2FlashForCausalLM", {"mapped", "mimo_v2"}, {"native, no parts", "mimo_v2", true}},
    ClassLine{"MiniMaxForCausalLM", {"removed"}, {"fallback"}},
    ClassLine{"MiniMaxM2ForCausalLM", {"mapped", kRun}, {"renaming, quiet query", kRun}},
    ClassLine{"MiniMaxM3SparseForCausalLM", {"sparse", "minimax_m3/nvidia/model"}, {"renaming", "minimax_m3"}},
    ClassLine{"MiniMaxM3SparseForConditionalGeneration",
              {"sparse", "minimax_m3/nvidia/model"},
              {"renaming", "minimax_m3_vl"}},
    ClassLine{"Ministral3ForCausalLM", {"mapped", kRun}, {"renaming", kRun, true}},
    ClassLine{"MinistralForCausalLM", {"mapped", kRun}, {"fallback", kRun}, NotRead},
    ClassLine{"Mistral3ForConditionalGeneration", {"mapped", kRun}, {"renaming", kRun}},
    ClassLine{"Mistral4ForCausalLM", {"latent, unwired", "transformers/base"}, {"fallback"}},
    ClassLine{"MistralForCausalLM", {"mapped", kRun}, {"renaming", kRun, true}},
    ClassLine{"MixtralForCausalLM", {"mapped", kRun}, {"native, no projections", kRun}},
    ClassLine{
        "MuseGlimmerForConditionalGeneration", {"mapped", kRun}, {"renaming, neither shared nor output", kRun}, Merged},
    ClassLine{"NemotronForCausalLM", {"mapped", "nemotron"}, {"fallback"}, Merged},
    ClassLine{"NemotronHForCausalLM", {"mapped", kRun}, {"renaming or native", kRun}, Merged},
    ClassLine{"NemotronHPuzzleForCausalLM", {"mapped", "nemotron_h"}, {"renaming or native", kRun}, Merged},
    ClassLine{"OPTForCausalLM", {"mapped", "opt"}, {"native, quiet, no projections", "opt", true}, Merged},
    ClassLine{"Olmo2ForCausalLM", {"mapped", kRun}, {"native or crash", kRun}, NotRead},
    ClassLine{"Olmo3ForCausalLM", {"mapped", "transformers/base"}, {"native or crash", kRun}, NotRead},
    ClassLine{"OlmoForCausalLM", {"mapped", "transformers/base"}, {"native or crash", "olmo"}, NotRead},
    ClassLine{"OlmoHybridForCausalLM", {"unloadable"}, {"fallback"}},
    ClassLine{"OlmoeForCausalLM", {"mapped", kRun}, {"native or crash", kRun}, Merged},
    ClassLine{"PanguEmbeddedForCausalLM", {"mapped", "openpangu"}, {"fallback"}},
    ClassLine{"Phi3ForCausalLM", {"mapped", kRun}, {"renaming", kRun, true}},
    ClassLine{"Phi4MMForCausalLM", {"mapped", "phi4mm"}, {"native, no projections", "phi4mm"}},
    ClassLine{"PhiForCausalLM", {"mapped", "transformers/base"}, {"native, quiet", "phi"}, Merged},
    ClassLine{"PhiMoEForCausalLM", {"mapped", "phimoe"}, {"renaming late", "phimoe"}, Merged},
    ClassLine{"Qwen2AudioForConditionalGeneration", {"mapped", "qwen2_audio"}, {"native or crash", "qwen2_audio"}},
    ClassLine{"Qwen2ForCausalLM", {"mapped", kRun}, {"native", kRun, true}},
    ClassLine{"Qwen2MoeForCausalLM", {"mapped", kRun}, {"native, quiet", kRun}, Merged},
    ClassLine{"Qwen2VLForConditionalGeneration", {"mapped", "qwen2_vl"}, {"native or crash", kRun}},
    ClassLine{"Qwen2_5OmniForConditionalGeneration", {"mapped", "qwen2_5_omni_thinker"}, {"fallback"}},
    ClassLine{"Qwen2_5OmniModel", {"mapped", "qwen2_5_omni_thinker"}, {"fallback"}},
    ClassLine{"Qwen2_5_VLForConditionalGeneration", {"mapped", "qwen2_5_vl"}, {"native, quiet, no projections", kRun}},
    ClassLine{"Qwen3ForCausalLM", {"mapped", kRun}, {"unwired", kRun, true}},
    ClassLine{"Qwen3MoeForCausalLM", {"mapped", kRun}, {"unwired, quiet", kRun}},
    ClassLine{"Qwen3NextForCausalLM", {"mapped", kRun}, {"projection or native", "qwen3_next"}},
    ClassLine{"Qwen3OmniMoeForConditionalGeneration",
              {"mapped", "qwen3_omni_moe_thinker"},
              {"unwired, quiet", "qwen3_omni_moe"}},
    ClassLine{"Qwen3VLForConditionalGeneration", {"mapped", kRun}, {"unwired, quiet", kRun}},
    ClassLine{"Qwen3VLMoeForConditionalGeneration", {"mapped", kRun}, {"unwired, quiet", kRun}},
    ClassLine{"Qwen3_5ForCausalLM", {"mapped", kRun}, {"renaming or native", kRun}},
    ClassLine{"Qwen3_5ForConditionalGeneration", {"mapped", kRun}, {"renaming or native", kRun}},
    ClassLine{"Qwen3_5MoeForCausalLM", {"mapped", kRun}, {"renaming or native", kRun}},
    ClassLine{"Qwen3_5MoeForConditionalGeneration", {"mapped", kRun}, {"renaming or native", kRun}},
    ClassLine{"SarvamMoEForCausalLM", {"unwired", "sarvam"}, {"unwired, quiet", "sarvam_moe"}},
    ClassLine{"SeedOssForCausalLM", {"mapped", kRun}, {"fallback", kRun}, Merged},
    ClassLine{"SmolLM3ForCausalLM", {"mapped", kRun}, {"fallback", kRun}, NotRead},
    ClassLine{"SmolVLMForConditionalGeneration", {"mapped", "smolvlm"}, {"fallback"}},
    ClassLine{"SolarOpenForCausalLM", {"mapped", "transformers/base"}, {"fallback"}, NotRead},
    ClassLine{"StableLmForCausalLM", {"mapped", "stablelm"}, {"native or crash", "stablelm"}, Merged},
    ClassLine{"Starcoder2ForCausalLM", {"mapped", kRun}, {"native, quiet, no projections", kRun}, NotRead},
    ClassLine{"Step3p5ForCausalLM", {"mapped", "step3p5"}, {"unwired, quiet", "step3p5"}},
    ClassLine{"Step3p7ForConditionalGeneration", {"mapped", "step3p7"}, {"unwired, quiet", "step3p7"}},
    ClassLine{"TeleChat3ForCausalLM", {"mapped", "llama"}, {"fallback"}},
    ClassLine{"VaultGemmaForCausalLM", {"mapped", kRun}, {"fallback", kRun}, NotRead},
    ClassLine{"VoxtralForConditionalGeneration", {"mistral files", "voxtral"}, {"renaming", "voxtral"}},
    ClassLine{"XverseForCausalLM", {"removed"}, {"native or crash", "xverse"}},
    ClassLine{"Zamba2ForCausalLM", {"zamba2", "zamba2"}, {"fallback"}},
};

// Loaders of MTP layers that take other names than those of the model's own layers. All others take the same.
constexpr std::array kMtpClasses = {
    MtpLine{"Glm4MoeForCausalLM", {"native or crash", kRun}},
    MtpLine{"MiMoV2FlashForCausalLM", {"native", "mimo_v2_mtp"}},
};

}  // namespace

std::span<const LoaderLine> loader_lines(ServerKind server) {
  return server == ServerKind::Vllm ? std::span<const LoaderLine>(kVllmLoaders)
                                    : std::span<const LoaderLine>(kSglangLoaders);
}

std::span<const ClassLine> class_lines() { return kClasses; }

std::span<const MtpLine> mtp_lines() { return kMtpClasses; }

}  // namespace kvcal
