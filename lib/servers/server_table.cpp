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
    LoaderLine{"removed", Attention, 0, 0, Refused, Refused, Refused, "the class was removed in vLLM 0.23"},
    LoaderLine{"no class", Attention, 0, 0, Refused, Refused, Refused, "vLLM 0.33.0 has no such class of its own"},
    LoaderLine{"unloadable", Attention, 0, 0, Refused, Refused, Refused,
               "vLLM 0.33.0 stops at the convolution's filters in any checkpoint of the class"},
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
               "checkpoint names that the layers do not have"},
};

// Under vLLM, then under SGLang, then the INT8 scales of vLLM-Ascend 0.30.0rc2 where vLLM "maps": Merged and NotRead as
// the classes of the vLLM 0.30.0 that it patches have it.
constexpr std::array kClasses = {
    ClassLine{"AfmoeForCausalLM", {"mapped", "models/afmoe.py"}, {"native, quiet", "models/afmoe.py"}, Merged},
    ClassLine{
        "ApertusForCausalLM", {"mapped", "models/apertus.py"}, {"renaming", "models/apertus.py", false, true}, Merged},
    ClassLine{"ArceeForCausalLM",
              {"mapped", "models/transformers/base.py"},
              {"renaming", "models/arcee.py", false, true},
              Merged},
    ClassLine{"BailingMoEForCausalLM", {"no class", "models/registry.py"}, {"unwired, quiet", "models/bailing_moe.py"}},
    ClassLine{
        "BailingMoeForCausalLM", {"unwired", "models/bailing_moe.py"}, {"unwired, quiet", "models/bailing_moe.py"}},
    ClassLine{
        "BailingMoeV2ForCausalLM", {"unwired", "models/bailing_moe.py"}, {"unwired, quiet", "models/bailing_moe.py"}},
    ClassLine{"BailingMoeV2_5ForCausalLM",
              {"latent, asking", "models/bailing_moe_linear.py"},
              {"latent, direct", "models/bailing_moe_linear.py"}},
    ClassLine{"BambaForCausalLM", {"removed", "models/registry.py"}, {"fallback", "models/transformers.py"}},
    ClassLine{"Cohere2ForCausalLM", {"mapped", "", true}, {"renaming late", "", true}, Merged},
    ClassLine{"Cohere2MoeForCausalLM",
              {"mapped", "models/cohere2_moe.py"},
              {"native, quiet", "models/cohere2_moe.py"},
              Merged},
    ClassLine{"CohereForCausalLM", {"mapped", "", true}, {"renaming late", "", true}, Merged},
    ClassLine{"CwmForCausalLM", {"mapped", "", true}, {"fallback", "", true}},
    ClassLine{"DeciLMForCausalLM",
              {"mapped", "models/nemotron_nas.py"},
              {"renaming, asking the config", "models/nemotron_nas.py"},
              Merged},
    ClassLine{"DeepseekForCausalLM", {"mapped", "models/deepseek_v2.py"}, {"native or crash", "models/deepseek.py"}},
    ClassLine{"DeepseekOCR2ForCausalLM",
              {"mapped", "models/deepseek_ocr2.py"},
              {"native or crash", "models/deepseek_ocr.py"}},
    ClassLine{
        "DeepseekOCRForCausalLM", {"mapped", "models/deepseek_ocr.py"}, {"native or crash", "models/deepseek_ocr.py"}},
    ClassLine{"DeepseekV2ForCausalLM", {"latent", "models/deepseek_v2.py"}, {"latent", "models/deepseek_v2.py"}},
    ClassLine{"DeepseekV32ForCausalLM",
              {"latent, sparse", "models/deepseek_v32/nvidia/model.py"},
              {"latent, sparse", "models/deepseek_v2.py"}},
    ClassLine{"DeepseekV3ForCausalLM", {"latent", "", true}, {"latent", "", true}},
    ClassLine{"DeepseekVLV2ForCausalLM",
              {"mapped", "models/deepseek_vl2.py"},
              {"unwired or crash", "models/deepseek_vl2.py"}},
    ClassLine{"Dots1ForCausalLM", {"removed", "models/registry.py"}, {"fallback", "models/transformers.py"}},
    ClassLine{"DotsOCRForCausalLM", {"mapped", "models/dots_ocr.py"}, {"native", "models/dots_ocr.py"}},
    ClassLine{"Ernie4_5ForCausalLM", {"mapped", "", true}, {"fallback", "", true}},
    ClassLine{"Ernie4_5_ForCausalLM", {"no class", "models/registry.py"}, {"native or crash", "models/ernie4.py"}},
    ClassLine{"Ernie4_5_MoeForCausalLM", {"mapped", "", true}, {"native or crash", "", true}},
    ClassLine{"Exaone4ForCausalLM", {"mapped", "", true}, {"renaming", "models/exaone4.py", false, true}, Merged},
    ClassLine{"Exaone4_5_ForConditionalGeneration",
              {"mapped", "models/exaone4_5.py"},
              {"fallback", "models/transformers.py"}},
    ClassLine{"ExaoneForCausalLM",
              {"mapped, other module", "models/exaone.py"},
              {"native or crash", "models/exaone.py"},
              Merged},
    ClassLine{"ExaoneMoEForCausalLM",
              {"mapped", "models/exaone_moe.py"},
              {"unwired, quiet", "models/exaone_moe.py"},
              NotRead},
    ClassLine{
        "ExaoneMoeForCausalLM", {"mapped", "models/exaone_moe.py"}, {"unwired, quiet", "models/exaone_moe.py"}, Merged},
    ClassLine{
        "FalconForCausalLM", {"mapped, other module", "models/falcon.py"}, {"fallback", "models/transformers.py"}},
    ClassLine{"FalconH1ForCausalLM", {"mapped", "", true}, {"unwired or crash", "", true}, Merged},
    ClassLine{"FlexOlmoForCausalLM", {"mapped", "", true}, {"fallback", "models/transformers.py"}, NotRead},
    ClassLine{"GPT2LMHeadModel", {"native", "models/gpt2.py"}, {"native or crash", "models/gpt2.py"}},
    ClassLine{"GPTNeoXForCausalLM",
              {"mapped, other module", "models/transformers/base.py"},
              {"fallback", "models/transformers.py"}},
    ClassLine{"Gemma2ForCausalLM", {"mapped", "", true}, {"renaming late", "", true}, Merged},
    ClassLine{"Gemma3ForCausalLM", {"mapped", "", true}, {"renaming, no query", "", true}, Merged},
    ClassLine{"Gemma3ForConditionalGeneration", {"mapped", "", true}, {"renaming, no query", "", true}},
    ClassLine{"Gemma3nForCausalLM", {"mapped", "", true}, {"renaming late, quiet", "models/gemma3n_causal.py"}},
    ClassLine{"Gemma3nForConditionalGeneration",
              {"mapped", "models/gemma3n_mm.py"},
              {"renaming late", "models/gemma3n_mm.py"}},
    ClassLine{"Gemma4ForCausalLM", {"mapped", "", true}, {"renaming, quiet", "", true}, NotRead},
    ClassLine{"Gemma4ForConditionalGeneration",
              {"mapped", "models/gemma4_mm.py"},
              {"renaming, quiet", "models/gemma4_mm.py"},
              NotRead},
    ClassLine{"Gemma4UnifiedForConditionalGeneration",
              {"mapped", "models/gemma4_unified.py"},
              {"native, quiet", "models/gemma4_unified.py"},
              NotRead},
    ClassLine{"GemmaForCausalLM", {"mapped", "", true}, {"native or crash", "", true}, Merged},
    ClassLine{"Glm4ForCausalLM", {"mapped", "", true}, {"native", "", true, true}},
    ClassLine{"Glm4MoeForCausalLM", {"mapped", "", true}, {"unwired, quiet", "", true}},
    ClassLine{
        "Glm4MoeLiteForCausalLM", {"latent", "models/glm4_moe_lite.py"}, {"latent, direct", "models/glm4_moe_lite.py"}},
    ClassLine{"Glm4vForConditionalGeneration", {"mapped", "models/glm4_1v.py"}, {"native, quiet", "models/glm4v.py"}},
    ClassLine{
        "Glm4vMoeForConditionalGeneration", {"mapped", "models/glm4_1v.py"}, {"unwired, quiet", "models/glm4v_moe.py"}},
    ClassLine{"GlmForCausalLM", {"mapped", "", true}, {"fallback", "models/transformers.py"}},
    ClassLine{"GlmMoeDsaForCausalLM",
              {"latent, sparse", "models/deepseek_v32/nvidia/model.py"},
              {"latent, sparse", "models/glm4_moe.py"}},
    ClassLine{"GptOssForCausalLM", {"mapped", "", true}, {"unwired, quiet", "", true}},
    ClassLine{"GraniteForCausalLM", {"mapped", "", true}, {"native or crash", "", true}},
    ClassLine{"GraniteMoeForCausalLM", {"mapped", "", true}, {"native, no projections", "", true}},
    ClassLine{"GraniteMoeHybridForCausalLM", {"mapped", "", true}, {"native or crash, asking the config", "", true}},
    ClassLine{"GraniteMoeSWAForCausalLM",
              {"mapped", "models/granitemoeshared.py"},
              {"native, no projections", "models/granitemoe.py"}},
    ClassLine{"GraniteMoeSharedForCausalLM", {"mapped", "", true}, {"native, no projections", "", true}},
    ClassLine{"GraniteSWAForCausalLM", {"mapped", "models/granite.py"}, {"native or crash", "models/granite.py"}},
    ClassLine{"HYV3ForCausalLM", {"mapped", "models/hy_v3.py"}, {"unwired, quiet", "models/hunyuan_v3.py"}},
    ClassLine{"HunYuanDenseV1ForCausalLM", {"mapped", "", true}, {"unwired, no query", "", true, true}, NotRead},
    ClassLine{"HunYuanMoEV1ForCausalLM",
              {"mapped", "", true},
              {"unwired, no query", "models/hunyuan.py", false, true},
              NotRead},
    ClassLine{"IQuestCoderForCausalLM", {"mapped", "models/llama.py"}, {"renaming", "models/llama.py", false, true}},
    ClassLine{
        "Idefics3ForConditionalGeneration", {"mapped", "models/idefics3.py"}, {"fallback", "models/transformers.py"}},
    ClassLine{"InternLM3ForCausalLM", {"mapped", "models/llama.py"}, {"renaming", "models/llama.py", false, true}},
    ClassLine{"InternS2PreviewForConditionalGeneration",
              {"mapped", "models/interns2_preview.py"},
              {"renaming or native", "models/interns2preview.py"}},
    ClassLine{"InternVLChatModel", {"mapped", "models/internvl.py"}, {"native or crash", "models/internvl.py"}},
    ClassLine{
        "InternVLForConditionalGeneration", {"mapped", "models/interns1.py"}, {"fallback", "models/transformers.py"}},
    ClassLine{
        "Jais2ForCausalLM", {"mapped", "models/transformers/base.py"}, {"fallback", "models/transformers.py"}, Merged},
    ClassLine{"JambaForCausalLM", {"unwired", "models/jamba.py"}, {"fallback", "models/transformers.py"}},
    ClassLine{"KimiK25ForConditionalGeneration", {"latent", "models/kimi_k25.py"}, {"latent", "models/kimi_k25.py"}},
    ClassLine{
        "KimiLinearForCausalLM", {"latent, unwired", "models/kimi_linear.py"}, {"latent", "models/kimi_linear.py"}},
    ClassLine{"KimiVLForConditionalGeneration", {"latent", "models/kimi_vl.py"}, {"latent", "models/kimi_vl.py"}},
    ClassLine{"LLaMAForCausalLM", {"mapped", "models/llama.py"}, {"fallback", "models/transformers.py"}},
    ClassLine{"Lfm2ForCausalLM", {"unwired", "models/lfm2.py"}, {"unwired, quiet", "", true}},
    ClassLine{"Lfm2MoeForCausalLM", {"unwired", "models/lfm2_moe.py"}, {"unwired, quiet", "", true}},
    ClassLine{
        "Lfm2VlForConditionalGeneration", {"unwired", "models/lfm2_vl.py"}, {"unwired, quiet", "models/lfm2_vl.py"}},
    ClassLine{
        "LightOnOCRForConditionalGeneration", {"mapped", "models/lightonocr.py"}, {"unwired", "models/lightonocr.py"}},
    ClassLine{"Llama4ForCausalLM", {"mapped", "models/llama4.py"}, {"unwired", "", true}},
    ClassLine{
        "Llama4ForConditionalGeneration", {"mapped", "models/mllama4.py"}, {"unwired", "models/mllama4.py"}, NotRead},
    ClassLine{"LlamaForCausalLM", {"mapped", "", true}, {"renaming", "", true, true}},
    ClassLine{"LlavaForConditionalGeneration", {"mapped", "", true}, {"renaming", "models/llava.py"}},
    ClassLine{"LlavaNextForConditionalGeneration",
              {"mapped", "models/llava_next.py"},
              {"fallback", "models/transformers.py"}},
    ClassLine{"LlavaOnevisionForConditionalGeneration",
              {"mapped", "models/llava_onevision.py"},
              {"fallback", "models/transformers.py"}},
    ClassLine{"MellumForCausalLM", {"mapped", "models/transformers/base.py"}, {"unwired, quiet", "models/mellum.py"}},
    ClassLine{"MiMoForCausalLM", {"mapped", "models/mimo.py"}, {"native or crash", "models/mimo.py", false, true}},
    ClassLine{"MiMoV2FlashForCausalLM",
              {"mapped", "models/mimo_v2.py"},
              {"native, no parts", "models/mimo_v2.py", false, true}},
    ClassLine{"MiniMaxForCausalLM", {"removed", "models/registry.py"}, {"fallback", "models/transformers.py"}},
    ClassLine{"MiniMaxM2ForCausalLM", {"mapped", "", true}, {"renaming, quiet query", "", true}},
    ClassLine{"MiniMaxM3SparseForCausalLM",
              {"sparse", "models/minimax_m3/nvidia/model.py"},
              {"renaming", "models/minimax_m3.py"}},
    ClassLine{"MiniMaxM3SparseForConditionalGeneration",
              {"sparse", "models/minimax_m3/nvidia/model.py"},
              {"renaming", "models/minimax_m3_vl.py"}},
    ClassLine{"Ministral3ForCausalLM", {"mapped", "", true}, {"renaming", "", true, true}},
    ClassLine{"MinistralForCausalLM", {"mapped", "", true}, {"fallback", "", true}, NotRead},
    ClassLine{"Mistral3ForConditionalGeneration", {"mapped", "", true}, {"renaming", "", true}},
    ClassLine{"Mistral4ForCausalLM",
              {"latent, unwired", "models/transformers/base.py"},
              {"fallback", "models/transformers.py"}},
    ClassLine{"MistralForCausalLM", {"mapped", "", true}, {"renaming", "", true, true}},
    ClassLine{"MixtralForCausalLM", {"mapped", "", true}, {"native, no projections", "", true}},
    ClassLine{"MuseGlimmerForConditionalGeneration",
              {"mapped", "", true},
              {"renaming, neither shared nor output", "", true},
              Merged},
    ClassLine{"NemotronForCausalLM", {"mapped", "models/nemotron.py"}, {"fallback", "models/transformers.py"}, Merged},
    ClassLine{"NemotronHForCausalLM", {"mapped", "", true}, {"renaming or native", "", true}, Merged},
    ClassLine{
        "NemotronHPuzzleForCausalLM", {"mapped", "models/nemotron_h.py"}, {"renaming or native", "", true}, Merged},
    ClassLine{"OPTForCausalLM",
              {"mapped", "models/opt.py"},
              {"native, quiet, no projections", "models/opt.py", false, true},
              Merged},
    ClassLine{"Olmo2ForCausalLM", {"mapped", "", true}, {"native or crash", "", true}, NotRead},
    ClassLine{"Olmo3ForCausalLM", {"mapped", "models/transformers/base.py"}, {"native or crash", "", true}, NotRead},
    ClassLine{
        "OlmoForCausalLM", {"mapped", "models/transformers/base.py"}, {"native or crash", "models/olmo.py"}, NotRead},
    ClassLine{"OlmoHybridForCausalLM",
              {"unloadable", "layers/mamba/gdn/olmo_gdn_linear_attn.py"},
              {"fallback", "models/transformers.py"}},
    ClassLine{"OlmoeForCausalLM", {"mapped", "", true}, {"native or crash", "", true}, Merged},
    ClassLine{"PanguEmbeddedForCausalLM", {"mapped", "models/openpangu.py"}, {"fallback", "models/transformers.py"}},
    ClassLine{"Phi3ForCausalLM", {"mapped", "", true}, {"renaming", "", true, true}},
    ClassLine{"Phi4MMForCausalLM", {"mapped", "models/phi4mm.py"}, {"native, no projections", "models/phi4mm.py"}},
    ClassLine{"PhiForCausalLM", {"mapped", "models/transformers/base.py"}, {"native, quiet", "models/phi.py"}, Merged},
    ClassLine{"PhiMoEForCausalLM", {"mapped", "models/phimoe.py"}, {"renaming late", "models/phimoe.py"}, Merged},
    ClassLine{"Qwen2AudioForConditionalGeneration",
              {"mapped", "models/qwen2_audio.py"},
              {"native or crash", "models/qwen2_audio.py"}},
    ClassLine{"Qwen2ForCausalLM", {"mapped", "", true}, {"native", "", true, true}},
    ClassLine{"Qwen2MoeForCausalLM", {"mapped", "", true}, {"native, quiet", "", true}, Merged},
    ClassLine{"Qwen2VLForConditionalGeneration", {"mapped", "models/qwen2_vl.py"}, {"native or crash", "", true}},
    ClassLine{"Qwen2_5OmniForConditionalGeneration",
              {"mapped", "models/qwen2_5_omni_thinker.py"},
              {"fallback", "models/transformers.py"}},
    ClassLine{"Qwen2_5OmniModel", {"mapped", "models/qwen2_5_omni_thinker.py"}, {"fallback", "models/transformers.py"}},
    ClassLine{"Qwen2_5_VLForConditionalGeneration",
              {"mapped", "models/qwen2_5_vl.py"},
              {"native, quiet, no projections", "", true}},
    ClassLine{"Qwen3ForCausalLM", {"mapped", "", true}, {"unwired", "", true, true}},
    ClassLine{"Qwen3MoeForCausalLM", {"mapped", "", true}, {"unwired, quiet", "", true}},
    ClassLine{"Qwen3NextForCausalLM", {"mapped", "", true}, {"projection or native", "models/qwen3_next.py"}},
    ClassLine{"Qwen3OmniMoeForConditionalGeneration",
              {"mapped", "models/qwen3_omni_moe_thinker.py"},
              {"unwired, quiet", "models/qwen3_omni_moe.py"}},
    ClassLine{"Qwen3VLForConditionalGeneration", {"mapped", "", true}, {"unwired, quiet", "", true}},
    ClassLine{"Qwen3VLMoeForConditionalGeneration", {"mapped", "", true}, {"unwired, quiet", "", true}},
    ClassLine{"Qwen3_5ForCausalLM", {"mapped", "", true}, {"renaming or native", "", true}},
    ClassLine{"Qwen3_5ForConditionalGeneration", {"mapped", "", true}, {"renaming or native", "", true}},
    ClassLine{"Qwen3_5MoeForCausalLM", {"mapped", "", true}, {"renaming or native", "", true}},
    ClassLine{"Qwen3_5MoeForConditionalGeneration", {"mapped", "", true}, {"renaming or native", "", true}},
    ClassLine{"SarvamMoEForCausalLM", {"unwired", "models/sarvam.py"}, {"unwired, quiet", "models/sarvam_moe.py"}},
    ClassLine{"SeedOssForCausalLM", {"mapped", "", true}, {"fallback", "", true}, Merged},
    ClassLine{"SmolLM3ForCausalLM", {"mapped", "", true}, {"fallback", "", true}, NotRead},
    ClassLine{
        "SmolVLMForConditionalGeneration", {"mapped", "models/smolvlm.py"}, {"fallback", "models/transformers.py"}},
    ClassLine{"SolarOpenForCausalLM",
              {"mapped", "models/transformers/base.py"},
              {"fallback", "models/transformers.py"},
              NotRead},
    ClassLine{
        "StableLmForCausalLM", {"mapped", "models/stablelm.py"}, {"native or crash", "models/stablelm.py"}, Merged},
    ClassLine{"Starcoder2ForCausalLM", {"mapped", "", true}, {"native, quiet, no projections", "", true}, NotRead},
    ClassLine{"Step3p5ForCausalLM", {"mapped", "models/step3p5.py"}, {"unwired, quiet", "models/step3p5.py"}},
    ClassLine{
        "Step3p7ForConditionalGeneration", {"mapped", "models/step3p7.py"}, {"unwired, quiet", "models/step3p7.py"}},
    ClassLine{"TeleChat3ForCausalLM", {"mapped", "models/llama.py"}, {"fallback", "models/transformers.py"}},
    ClassLine{"VaultGemmaForCausalLM", {"mapped", "", true}, {"fallback", "", true}, NotRead},
    ClassLine{
        "VoxtralForConditionalGeneration", {"mistral files", "models/voxtral.py"}, {"renaming", "models/voxtral.py"}},
    ClassLine{"XverseForCausalLM", {"removed", "models/registry.py"}, {"native or crash", "models/xverse.py"}},
    ClassLine{"Zamba2ForCausalLM", {"zamba2", "models/zamba2.py"}, {"fallback", "models/transformers.py"}},
};

// Loaders of MTP layers that take other names than those of the model's own layers. All others take the same.
constexpr std::array kMtpClasses = {
    MtpLine{"Glm4MoeForCausalLM", {"native or crash", "", true}},
    MtpLine{"MiMoV2FlashForCausalLM", {"native", "models/mimo_v2_mtp.py"}},
};

}  // namespace

std::span<const LoaderLine> loader_lines(ServerKind server) {
  return server == ServerKind::Vllm ? std::span<const LoaderLine>(kVllmLoaders)
                                    : std::span<const LoaderLine>(kSglangLoaders);
}

std::span<const ClassLine> class_lines() { return kClasses; }

std::span<const MtpLine> mtp_lines() { return kMtpClasses; }

}  // namespace kvcal
