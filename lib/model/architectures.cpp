#include <array>

#include "model/archs/archs.h"
#include "model/config_reading.h"

namespace kvcal {
namespace {

constexpr std::array kArchitectures = {
    Architecture{"Ernie4_5ForCausalLM", parse_ernie4_5},
    Architecture{"Ernie4_5_MoeForCausalLM", parse_ernie4_5_moe},
    Architecture{"Gemma2ForCausalLM", parse_gemma2},
    Architecture{"Gemma3ForCausalLM", parse_gemma3},
    Architecture{"Gemma3ForConditionalGeneration", parse_gemma3},
    Architecture{"GemmaForCausalLM", parse_gemma},
    Architecture{"Glm4MoeForCausalLM", parse_glm4_moe},
    Architecture{"GptOssForCausalLM", parse_gpt_oss},
    Architecture{"GraniteMoeForCausalLM", parse_granite_moe},
    Architecture{"GraniteMoeSharedForCausalLM", parse_granite_moe_shared},
    Architecture{"LlamaForCausalLM", parse_llama},
    Architecture{"MiniMaxM2ForCausalLM", parse_minimax_m2},
    Architecture{"MistralForCausalLM", parse_mistral},
    Architecture{"MixtralForCausalLM", parse_mixtral},
    Architecture{"OlmoeForCausalLM", parse_olmoe},
    Architecture{"Qwen2ForCausalLM", parse_qwen2},
    Architecture{"Qwen2MoeForCausalLM", parse_qwen2_moe},
    Architecture{"Qwen3ForCausalLM", parse_qwen3},
    Architecture{"Qwen3MoeForCausalLM", parse_qwen3_moe},
    Architecture{"Qwen3NextForCausalLM", parse_qwen3_next},
    Architecture{"Qwen3VLMoeForConditionalGeneration", parse_qwen3_vl_moe},
    Architecture{"Qwen3_5ForCausalLM", parse_qwen3_5},
    Architecture{"Qwen3_5ForConditionalGeneration", parse_qwen3_5},
    Architecture{"Qwen3_5MoeForCausalLM", parse_qwen3_5_moe},
    Architecture{"Qwen3_5MoeForConditionalGeneration", parse_qwen3_5_moe},
};

std::string architecture_name(const Json& config) {
  const Json* list = find_member(config, "architectures");
  if (!list || !list->is_array() || list->empty() || !(*list)[0].is_string())
    fail("config.json names no architecture: expected \"architectures\": [\"...\"]");
  return (*list)[0].get<std::string>();
}

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

const Architecture& find_architecture(const Json& config) {
  const std::string name = architecture_name(config);
  std::vector<std::string> known;
  for (const Architecture& a : kArchitectures) {
    if (a.name == name) return a;
    known.emplace_back(a.name);
  }
  fail_unknown("architecture", name, known);
}

std::unique_ptr<Model> parse_model(const Json& config) {
  if (!config.is_object()) fail("config.json is not an object");
  const Architecture& architecture = find_architecture(config);
  return while_doing("reading the config of a " + std::string(architecture.name),
                     [&] { return architecture.parse(config); });
}

}  // namespace kvcal
