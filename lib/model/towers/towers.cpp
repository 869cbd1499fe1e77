#include "model/towers/towers.h"

#include <algorithm>

#include "model/towers/gemma3_tower.h"
#include "model/towers/gemma4_tower.h"
#include "model/towers/glm4v_tower.h"
#include "model/towers/idefics3_tower.h"
#include "model/towers/internvl_chat_tower.h"
#include "model/towers/internvl_tower.h"
#include "model/towers/llama4_tower.h"
#include "model/towers/llava_next_tower.h"
#include "model/towers/llava_tower.h"
#include "model/towers/mistral3_tower.h"
#include "model/towers/qwen2_5_vl_tower.h"
#include "model/towers/qwen2_vl_tower.h"
#include "model/towers/qwen3_vl_tower.h"

namespace kvcal {
namespace {

struct TowerOf {
  std::string_view architecture;
  std::unique_ptr<VisionTower> (*read)(const Json& config, const ModelSpec& spec);
};

constexpr TowerOf kTowers[] = {{"Gemma3ForConditionalGeneration", read_gemma3_tower},
                               {"Gemma4ForConditionalGeneration", read_gemma4_tower},
                               {"Glm4vForConditionalGeneration", read_glm4v_tower},
                               {"Glm4vMoeForConditionalGeneration", read_glm4v_tower},
                               {"Idefics3ForConditionalGeneration", read_idefics3_tower},
                               {"InternVLChatModel", read_internvl_chat_tower},
                               {"InternVLForConditionalGeneration", read_internvl_tower},
                               {"Llama4ForConditionalGeneration", read_llama4_tower},
                               {"LlavaForConditionalGeneration", read_llava_tower},
                               {"LlavaNextForConditionalGeneration", read_llava_next_tower},
                               {"LlavaOnevisionForConditionalGeneration", read_llava_onevision_tower},
                               {"Mistral3ForConditionalGeneration", read_mistral3_tower},
                               {"Qwen2VLForConditionalGeneration", read_qwen2_vl_tower},
                               {"Qwen2_5_VLForConditionalGeneration", read_qwen2_5_vl_tower},
                               {"Qwen3VLForConditionalGeneration", read_qwen3_vl_tower},
                               {"Qwen3VLMoeForConditionalGeneration", read_qwen3_vl_tower},
                               {"Qwen3_5ForConditionalGeneration", read_qwen3_vl_tower},
                               {"Qwen3_5MoeForConditionalGeneration", read_qwen3_vl_tower},
                               {"SmolVLMForConditionalGeneration", read_smolvlm_tower}};

const TowerOf* find_tower(std::string_view architecture) {
  const auto found = std::ranges::find(kTowers, architecture, &TowerOf::architecture);
  return found == std::end(kTowers) ? nullptr : found;
}

}  // namespace

bool runs_tower(std::string_view architecture) { return find_tower(architecture) != nullptr; }

std::unique_ptr<VisionTower> read_tower(const Json& config, const ModelSpec& spec) {
  const TowerOf* found = find_tower(spec.architecture);
  if (!found)
    fail("the vision tower of a " + spec.architecture + " is not run here; give \"embeddings\" instead of pictures");
  if (spec.placeholders.empty()) fail("neither config.json nor tokenizer_config.json names the token of an image");
  return while_doing("reading vision_config", [&] { return found->read(config, spec); });
}

}  // namespace kvcal
