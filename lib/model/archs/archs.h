// The list of all architectures, and by it the parse functions of their files.
#pragma once

#include <memory>

#include "model/architecture.h"

/// Each as config.json names it, in alphabetical order, with the function that reads it. architectures.cpp
/// makes the table of it.
#define KVCAL_ARCHITECTURES(LINE)                                       \
  LINE("AfmoeForCausalLM", parse_afmoe)                                 \
  LINE("ApertusForCausalLM", parse_apertus)                             \
  LINE("ArceeForCausalLM", parse_arcee)                                 \
  LINE("BailingMoEForCausalLM", parse_bailing_moe)                      \
  LINE("BailingMoeForCausalLM", parse_bailing_moe)                      \
  LINE("BailingMoeV2ForCausalLM", parse_bailing_moe)                    \
  LINE("BailingMoeV2_5ForCausalLM", parse_bailing_linear)               \
  LINE("BambaForCausalLM", parse_bamba)                                 \
  LINE("Cohere2ForCausalLM", parse_cohere2)                             \
  LINE("Cohere2MoeForCausalLM", parse_cohere2_moe)                      \
  LINE("CohereForCausalLM", parse_cohere)                               \
  LINE("CwmForCausalLM", parse_cwm)                                     \
  LINE("DeciLMForCausalLM", parse_decilm)                               \
  LINE("DeepseekForCausalLM", parse_deepseek)                           \
  LINE("DeepseekOCR2ForCausalLM", parse_deepseek_ocr)                   \
  LINE("DeepseekOCRForCausalLM", parse_deepseek_ocr)                    \
  LINE("DeepseekV2ForCausalLM", parse_deepseek_v2)                      \
  LINE("DeepseekV32ForCausalLM", parse_deepseek_v32)                    \
  LINE("DeepseekV3ForCausalLM", parse_deepseek_v3)                      \
  LINE("DeepseekVLV2ForCausalLM", parse_deepseek_vl2)                   \
  LINE("Dots1ForCausalLM", parse_dots1)                                 \
  LINE("DotsOCRForCausalLM", parse_qwen2)                               \
  LINE("Ernie4_5ForCausalLM", parse_ernie4_5)                           \
  LINE("Ernie4_5_ForCausalLM", parse_ernie4_5_first)                    \
  LINE("Ernie4_5_MoeForCausalLM", parse_ernie4_5_moe)                   \
  LINE("Exaone4ForCausalLM", parse_exaone4)                             \
  LINE("Exaone4_5_ForConditionalGeneration", parse_exaone4_5)           \
  LINE("ExaoneForCausalLM", parse_exaone)                               \
  LINE("ExaoneMoEForCausalLM", parse_exaone_moe)                        \
  LINE("ExaoneMoeForCausalLM", parse_exaone_moe)                        \
  LINE("FalconForCausalLM", parse_falcon)                               \
  LINE("FalconH1ForCausalLM", parse_falcon_h1)                          \
  LINE("FlexOlmoForCausalLM", parse_flex_olmo)                          \
  LINE("GPT2LMHeadModel", parse_gpt2)                                   \
  LINE("GPTNeoXForCausalLM", parse_gpt_neox)                            \
  LINE("Gemma2ForCausalLM", parse_gemma2)                               \
  LINE("Gemma3ForCausalLM", parse_gemma3)                               \
  LINE("Gemma3ForConditionalGeneration", parse_gemma3)                  \
  LINE("Gemma3nForCausalLM", parse_gemma3n)                             \
  LINE("Gemma3nForConditionalGeneration", parse_gemma3n)                \
  LINE("Gemma4ForCausalLM", parse_gemma4)                               \
  LINE("Gemma4ForConditionalGeneration", parse_gemma4)                  \
  LINE("Gemma4UnifiedForConditionalGeneration", parse_gemma4_unified)   \
  LINE("GemmaForCausalLM", parse_gemma)                                 \
  LINE("Glm4ForCausalLM", parse_glm4)                                   \
  LINE("Glm4MoeForCausalLM", parse_glm4_moe)                            \
  LINE("Glm4MoeLiteForCausalLM", parse_glm4_moe_lite)                   \
  LINE("Glm4vForConditionalGeneration", parse_glm4v)                    \
  LINE("Glm4vMoeForConditionalGeneration", parse_glm4v_moe)             \
  LINE("GlmForCausalLM", parse_glm)                                     \
  LINE("GlmMoeDsaForCausalLM", parse_glm_moe_dsa)                       \
  LINE("GptOssForCausalLM", parse_gpt_oss)                              \
  LINE("GraniteForCausalLM", parse_granite)                             \
  LINE("GraniteMoeForCausalLM", parse_granite_moe)                      \
  LINE("GraniteMoeHybridForCausalLM", parse_granite_moe_hybrid)         \
  LINE("GraniteMoeSWAForCausalLM", parse_granite_moe_swa)               \
  LINE("GraniteMoeSharedForCausalLM", parse_granite_moe_shared)         \
  LINE("GraniteSWAForCausalLM", parse_granite_swa)                      \
  LINE("HYV3ForCausalLM", parse_hy_v3)                                  \
  LINE("HunYuanDenseV1ForCausalLM", parse_hunyuan_dense)                \
  LINE("HunYuanMoEV1ForCausalLM", parse_hunyuan_moe)                    \
  LINE("IQuestCoderForCausalLM", parse_iquest_coder)                    \
  LINE("Idefics3ForConditionalGeneration", parse_idefics3)              \
  LINE("InternLM3ForCausalLM", parse_internlm3)                         \
  LINE("InternS2PreviewForConditionalGeneration", parse_intern_s2)      \
  LINE("InternVLChatModel", parse_internvl)                             \
  LINE("InternVLForConditionalGeneration", parse_internvl)              \
  LINE("Jais2ForCausalLM", parse_jais2)                                 \
  LINE("JambaForCausalLM", parse_jamba)                                 \
  LINE("KimiK25ForConditionalGeneration", parse_kimi_k25)               \
  LINE("KimiLinearForCausalLM", parse_kimi_linear)                      \
  LINE("KimiVLForConditionalGeneration", parse_kimi_k25)                \
  LINE("LLaMAForCausalLM", parse_llama_alias)                           \
  LINE("Lfm2ForCausalLM", parse_lfm2)                                   \
  LINE("Lfm2MoeForCausalLM", parse_lfm2_moe)                            \
  LINE("Lfm2VlForConditionalGeneration", parse_lfm2)                    \
  LINE("LightOnOCRForConditionalGeneration", parse_light_on_ocr)        \
  LINE("Llama4ForCausalLM", parse_llama4)                               \
  LINE("Llama4ForConditionalGeneration", parse_llama4)                  \
  LINE("LlamaForCausalLM", parse_llama)                                 \
  LINE("LlavaForConditionalGeneration", parse_llava)                    \
  LINE("LlavaNextForConditionalGeneration", parse_llava)                \
  LINE("LlavaOnevisionForConditionalGeneration", parse_llava_onevision) \
  LINE("MellumForCausalLM", parse_mellum)                               \
  LINE("MiMoForCausalLM", parse_mimo)                                   \
  LINE("MiMoV2FlashForCausalLM", parse_mimo_v2)                         \
  LINE("MiniMaxForCausalLM", parse_minimax)                             \
  LINE("MiniMaxM2ForCausalLM", parse_minimax_m2)                        \
  LINE("MiniMaxM3SparseForCausalLM", parse_minimax_m3)                  \
  LINE("MiniMaxM3SparseForConditionalGeneration", parse_minimax_m3)     \
  LINE("Ministral3ForCausalLM", parse_ministral3)                       \
  LINE("MinistralForCausalLM", parse_ministral)                         \
  LINE("Mistral3ForConditionalGeneration", parse_mistral3)              \
  LINE("Mistral4ForCausalLM", parse_mistral4)                           \
  LINE("MistralForCausalLM", parse_mistral)                             \
  LINE("MixtralForCausalLM", parse_mixtral)                             \
  LINE("MuseGlimmerForConditionalGeneration", parse_muse_glimmer)       \
  LINE("NemotronForCausalLM", parse_nemotron)                           \
  LINE("NemotronHForCausalLM", parse_nemotron_h)                        \
  LINE("NemotronHPuzzleForCausalLM", parse_nemotron_h_puzzle)           \
  LINE("OPTForCausalLM", parse_opt)                                     \
  LINE("Olmo2ForCausalLM", parse_olmo2)                                 \
  LINE("Olmo3ForCausalLM", parse_olmo3)                                 \
  LINE("OlmoForCausalLM", parse_olmo)                                   \
  LINE("OlmoHybridForCausalLM", parse_olmo_hybrid)                      \
  LINE("OlmoeForCausalLM", parse_olmoe)                                 \
  LINE("PanguEmbeddedForCausalLM", parse_pangu_embedded)                \
  LINE("Phi3ForCausalLM", parse_phi3)                                   \
  LINE("Phi4MMForCausalLM", parse_phi4mm)                               \
  LINE("PhiForCausalLM", parse_phi)                                     \
  LINE("PhiMoEForCausalLM", parse_phi_moe)                              \
  LINE("Qwen2AudioForConditionalGeneration", parse_qwen2_audio)         \
  LINE("Qwen2ForCausalLM", parse_qwen2)                                 \
  LINE("Qwen2MoeForCausalLM", parse_qwen2_moe)                          \
  LINE("Qwen2VLForConditionalGeneration", parse_qwen2_vl)               \
  LINE("Qwen2_5OmniForConditionalGeneration", parse_qwen2_5_omni)       \
  LINE("Qwen2_5OmniModel", parse_qwen2_5_omni)                          \
  LINE("Qwen2_5_VLForConditionalGeneration", parse_qwen2_vl)            \
  LINE("Qwen3ForCausalLM", parse_qwen3)                                 \
  LINE("Qwen3MoeForCausalLM", parse_qwen3_moe)                          \
  LINE("Qwen3NextForCausalLM", parse_qwen3_next)                        \
  LINE("Qwen3OmniMoeForConditionalGeneration", parse_qwen3_omni_moe)    \
  LINE("Qwen3VLForConditionalGeneration", parse_qwen3_vl)               \
  LINE("Qwen3VLMoeForConditionalGeneration", parse_qwen3_vl_moe)        \
  LINE("Qwen3_5ForCausalLM", parse_qwen3_5)                             \
  LINE("Qwen3_5ForConditionalGeneration", parse_qwen3_5)                \
  LINE("Qwen3_5MoeForCausalLM", parse_qwen3_5_moe)                      \
  LINE("Qwen3_5MoeForConditionalGeneration", parse_qwen3_5_moe)         \
  LINE("SarvamMoEForCausalLM", parse_bailing_moe)                       \
  LINE("SeedOssForCausalLM", parse_seed_oss)                            \
  LINE("SmolLM3ForCausalLM", parse_smollm3)                             \
  LINE("SmolVLMForConditionalGeneration", parse_idefics3)               \
  LINE("SolarOpenForCausalLM", parse_solar_open)                        \
  LINE("StableLmForCausalLM", parse_stablelm)                           \
  LINE("Starcoder2ForCausalLM", parse_starcoder2)                       \
  LINE("Step3p5ForCausalLM", parse_step3p5)                             \
  LINE("Step3p7ForConditionalGeneration", parse_step3p5)                \
  LINE("TeleChat3ForCausalLM", parse_llama_alias)                       \
  LINE("VaultGemmaForCausalLM", parse_vault_gemma)                      \
  LINE("VoxtralForConditionalGeneration", parse_voxtral)                \
  LINE("XverseForCausalLM", parse_xverse)                               \
  LINE("Zamba2ForCausalLM", parse_zamba2)

namespace kvcal {

#define KVCAL_PARSE_FUNCTION(name, parse) std::unique_ptr<Model> parse(const Json& config);
KVCAL_ARCHITECTURES(KVCAL_PARSE_FUNCTION)
#undef KVCAL_PARSE_FUNCTION

}  // namespace kvcal
