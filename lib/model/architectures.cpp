#include <array>

#include "model/archs/archs.h"
#include "model/config_reading.h"
#include "model/refusals.h"

namespace kvcal {
namespace {

constexpr std::array kArchitectures = {
    Architecture{"BambaForCausalLM", parse_bamba},
    Architecture{"Cohere2ForCausalLM", parse_cohere2},
    Architecture{"CohereForCausalLM", parse_cohere},
    Architecture{"DeepseekV2ForCausalLM", parse_deepseek_v2},
    Architecture{"DeepseekV3ForCausalLM", parse_deepseek_v3},
    Architecture{"Ernie4_5ForCausalLM", parse_ernie4_5},
    Architecture{"Ernie4_5_MoeForCausalLM", parse_ernie4_5_moe},
    Architecture{"Exaone4ForCausalLM", parse_exaone4},
    Architecture{"FalconH1ForCausalLM", parse_falcon_h1},
    Architecture{"Gemma2ForCausalLM", parse_gemma2},
    Architecture{"Gemma3ForCausalLM", parse_gemma3},
    Architecture{"Gemma3ForConditionalGeneration", parse_gemma3},
    Architecture{"Gemma4ForCausalLM", parse_gemma4},
    Architecture{"Gemma4ForConditionalGeneration", parse_gemma4},
    Architecture{"GemmaForCausalLM", parse_gemma},
    Architecture{"Glm4ForCausalLM", parse_glm4},
    Architecture{"Glm4MoeForCausalLM", parse_glm4_moe},
    Architecture{"Glm4MoeLiteForCausalLM", parse_glm4_moe_lite},
    Architecture{"GlmForCausalLM", parse_glm},
    Architecture{"GptOssForCausalLM", parse_gpt_oss},
    Architecture{"GraniteForCausalLM", parse_granite},
    Architecture{"GraniteMoeForCausalLM", parse_granite_moe},
    Architecture{"GraniteMoeHybridForCausalLM", parse_granite_moe_hybrid},
    Architecture{"GraniteMoeSharedForCausalLM", parse_granite_moe_shared},
    Architecture{"HunYuanDenseV1ForCausalLM", parse_hunyuan_dense},
    Architecture{"HunYuanMoEV1ForCausalLM", parse_hunyuan_moe},
    Architecture{"JambaForCausalLM", parse_jamba},
    Architecture{"KimiK25ForConditionalGeneration", parse_kimi_k25},
    Architecture{"KimiLinearForCausalLM", parse_kimi_linear},
    Architecture{"Lfm2ForCausalLM", parse_lfm2},
    Architecture{"Lfm2MoeForCausalLM", parse_lfm2_moe},
    Architecture{"Lfm2VlForConditionalGeneration", parse_lfm2},
    Architecture{"Llama4ForCausalLM", parse_llama4},
    Architecture{"Llama4ForConditionalGeneration", parse_llama4},
    Architecture{"LlamaForCausalLM", parse_llama},
    Architecture{"LlavaForConditionalGeneration", parse_llava},
    Architecture{"MiniMaxForCausalLM", parse_minimax},
    Architecture{"MiniMaxM2ForCausalLM", parse_minimax_m2},
    Architecture{"Ministral3ForCausalLM", parse_ministral3},
    Architecture{"MinistralForCausalLM", parse_ministral},
    Architecture{"Mistral3ForConditionalGeneration", parse_mistral3},
    Architecture{"MistralForCausalLM", parse_mistral},
    Architecture{"MixtralForCausalLM", parse_mixtral},
    Architecture{"NemotronHForCausalLM", parse_nemotron_h},
    Architecture{"Olmo2ForCausalLM", parse_olmo2},
    Architecture{"Olmo3ForCausalLM", parse_olmo3},
    Architecture{"OlmoeForCausalLM", parse_olmoe},
    Architecture{"Phi3ForCausalLM", parse_phi3},
    Architecture{"Qwen2ForCausalLM", parse_qwen2},
    Architecture{"Qwen2MoeForCausalLM", parse_qwen2_moe},
    Architecture{"Qwen2VLForConditionalGeneration", parse_qwen2_vl},
    Architecture{"Qwen2_5_VLForConditionalGeneration", parse_qwen2_vl},
    Architecture{"Qwen3ForCausalLM", parse_qwen3},
    Architecture{"Qwen3MoeForCausalLM", parse_qwen3_moe},
    Architecture{"Qwen3NextForCausalLM", parse_qwen3_next},
    Architecture{"Qwen3VLForConditionalGeneration", parse_qwen3_vl},
    Architecture{"Qwen3VLMoeForConditionalGeneration", parse_qwen3_vl_moe},
    Architecture{"Qwen3_5ForCausalLM", parse_qwen3_5},
    Architecture{"Qwen3_5ForConditionalGeneration", parse_qwen3_5},
    Architecture{"Qwen3_5MoeForCausalLM", parse_qwen3_5_moe},
    Architecture{"Qwen3_5MoeForConditionalGeneration", parse_qwen3_5_moe},
    Architecture{"SeedOssForCausalLM", parse_seed_oss},
    Architecture{"SmolLM3ForCausalLM", parse_smollm3},
    Architecture{"Starcoder2ForCausalLM", parse_starcoder2},
    Architecture{"Zamba2ForCausalLM", parse_zamba2},
};

std::vector<std::string_view> known_names() {
  std::vector<std::string_view> names;
  for (const Architecture& a : kArchitectures) names.push_back(a.name);
  return names;
}

std::string architecture_name(const Json& config) {
  const Json* list = find_member(config, "architectures");
  if (!list || !list->is_array() || list->empty() || !(*list)[0].is_string())
    refuse_without_architecture(config, known_names());
  return (*list)[0].get<std::string>();
}

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

const Architecture& find_architecture(const Json& config) {
  const std::string name = architecture_name(config);
  for (const Architecture& a : kArchitectures)
    if (a.name == name) return a;
  refuse_architecture(config, name, known_names());
}

std::unique_ptr<Model> parse_model(const Json& given, int64_t max_model_len) {
  if (!given.is_object()) fail("config.json is not an object");
  Json config = given;
  Json& text = find_member(config, "text_config") ? config["text_config"] : config;
  if (text.is_object()) text.erase(kServedPositions);
  if (text.is_object() && max_model_len > 0) text[kServedPositions] = max_model_len;
  const Architecture& architecture = find_architecture(config);
  return while_doing("reading the config of a " + std::string(architecture.name), [&] {
    std::unique_ptr<Model> model = architecture.parse(config);
    refuse_unread_keys(config, model->spec());
    return model;
  });
}

}  // namespace kvcal
