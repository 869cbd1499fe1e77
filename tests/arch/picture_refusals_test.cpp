// Configs of towers that are not run: what is said to each.
#include <gtest/gtest.h>

#include "arch/golden.h"
#include "checkpoint/config_file.h"
#include "harness/message_of.h"
#include "harness/picture_model.h"
#include "model/architecture.h"
#include "model/towers/towers.h"

namespace kvcal {
namespace {

/// What is said to a config of tests/arch that has another value.
std::string refusal_at(const std::filesystem::path& folder, const std::string& pointer, const Json& value) {
  const Json config = read_json_file(folder / "config.json");
  Json other = config;
  other[Json::json_pointer(pointer)] = value;
  return message_of([&] { read_tower(other, parse_model(config)->spec()); });
}

/// Where that is in the vision_config of a golden case.
std::string refusal_of(const std::string& name, const char* key, const Json& value) {
  return refusal_at(Golden(name).folder, std::string("/vision_config/") + key, value);
}

TEST(PictureRefusals, say_what_is_wrong_with_a_tower) {
  EXPECT_EQ(refusal_of("gemma3_vl", "hidden_size", 15),
            "reading vision_config: hidden_size is 15, expected a multiple of 2");
  EXPECT_EQ(refusal_of("gemma3_vl", "image_size", 20),
            "reading vision_config: image_size is 20, expected at most 1,024 whole patches of 8");
  EXPECT_EQ(refusal_of("gemma3_vl", "image_size", 24),
            "reading vision_config: mm_tokens_per_image is 4, expected a square number whose root divides 3");
  EXPECT_EQ(refusal_of("gemma3_vl", "model_type", "clip_vision_model"),
            "reading vision_config: model_type is 'clip_vision_model', expected siglip_vision_model");
  EXPECT_EQ(refusal_of("internvl", "image_size", {16, 20}),
            "reading vision_config: image_size is [16,20], expected a square");
  EXPECT_EQ(refusal_of("internvl", "image_size", 18),
            "reading vision_config: image_size is 18, expected whole patches of 4");
  EXPECT_EQ(refusal_of("internvl", "image_size", 20),
            "reading vision_config: image_size is 20, expected at most 1,024 whole patches, in squares of 8");
  EXPECT_EQ(refusal_of("internvl", "norm_type", "batch_norm"),
            "reading vision_config: norm_type is 'batch_norm', expected layer_norm or rms_norm");
  EXPECT_EQ(refusal_of("internvl", "use_mean_pooling", false),
            "reading vision_config: use_mean_pooling is false, expected true");
  EXPECT_EQ(refusal_of("internvl", "use_absolute_position_embeddings", false),
            "reading vision_config: use_absolute_position_embeddings is false, expected true");
  EXPECT_EQ(refusal_of("internvl", "model_type", "clip_vision_model"),
            "reading vision_config: model_type is 'clip_vision_model', expected internvl_vision");
  EXPECT_EQ(refusal_of("mistral3", "hidden_size", 20),
            "reading vision_config: hidden_size is 20, expected a multiple of 8");
  EXPECT_EQ(refusal_of("mistral3", "head_dim", 16), "reading vision_config: head_dim is 16, expected 8");
  EXPECT_TRUE(
      refusal_of("mistral3", "hidden_act", "xielu").starts_with("reading vision_config: unknown hidden_act 'xielu'"));
  EXPECT_EQ(refusal_of("mistral3", "rope_parameters", {{"rope_type", "yarn"}}),
            "reading vision_config: rope_type is 'yarn', expected axial");
  EXPECT_EQ(refusal_of("llava", "model_type", "siglip_vision_model"),
            "reading vision_config: model_type is 'siglip_vision_model', expected clip_vision_model or pixtral");
  EXPECT_EQ(refusal_of("llava", "hidden_act", "gelu"),
            "reading vision_config: hidden_act is 'gelu', expected quick_gelu");
  EXPECT_EQ(refusal_of("llava", "image_size", 18),
            "reading vision_config: image_size is 18, expected at most 1,024 whole patches of 4");
  const std::filesystem::path idefics3 = PictureModel("idefics3").source();
  EXPECT_EQ(refusal_at(idefics3, "/vision_config/image_size", 3),
            "reading vision_config: image_size is 3, expected 1 to 1,024 patches of 4");
  EXPECT_EQ(refusal_at(idefics3, "/vision_config/image_size", {26, 26}),
            "reading vision_config: key 'image_size' is a list of 2, expected a whole number");
  EXPECT_EQ(refusal_at(idefics3, "/vision_config/num_attention_heads", nullptr), "no error");
  EXPECT_EQ(refusal_at(idefics3, "/vision_config", {{"hidden_size", 24}, {"image_size", 96}}),
            "reading vision_config: hidden_size is 24, expected a multiple of 16");
  EXPECT_EQ(refusal_of("llava_next", "model_type", "siglip_vision_model"),
            "reading vision_config: model_type is 'siglip_vision_model', expected clip_vision_model");
  EXPECT_EQ(refusal_of("llava_onevision", "model_type", "clip_vision_model"),
            "reading vision_config: model_type is 'clip_vision_model', expected siglip_vision_model");
  EXPECT_EQ(refusal_of("llava_onevision", "image_size", 7),
            "reading vision_config: image_size is 7, expected 1 to 1,024 patches of 8");
  EXPECT_EQ(refusal_of("qwen2_vl", "embed_dim", 18),
            "reading vision_config: embed_dim is 18, expected a multiple of 8");
  EXPECT_EQ(refusal_of("qwen2_vl", "hidden_size", 32), "reading vision_config: hidden_size is 32, expected 48");
  EXPECT_EQ(refusal_of("qwen2_vl", "hidden_act", "gelu"),
            "reading vision_config: hidden_act is 'gelu', expected quick_gelu");
  EXPECT_EQ(refusal_of("qwen2_5_vl", "hidden_size", 18),
            "reading vision_config: hidden_size is 18, expected a multiple of 8");
  EXPECT_EQ(refusal_of("qwen2_5_vl", "out_hidden_size", 32),
            "reading vision_config: out_hidden_size is 32, expected 48");
  EXPECT_EQ(refusal_of("qwen2_5_vl", "window_size", 7), "reading vision_config: window_size is 7, expected at least 8");
  EXPECT_EQ(refusal_of("qwen2_5_vl", "fullatt_block_indexes", {-1}),
            "reading vision_config: fullatt_block_indexes is no list of blocks");
  EXPECT_EQ(refusal_of("qwen3_vl", "num_position_embeddings", 15),
            "reading vision_config: num_position_embeddings is 15, expected a square");
  EXPECT_EQ(refusal_of("qwen3_vl", "deepstack_visual_indexes", {3}),
            "reading vision_config: deepstack_visual_indexes is no ascending list of blocks of the tower");
}

TEST(PictureRefusals, name_what_a_tower_of_gemma_4_takes) {
  const std::filesystem::path gemma4 = PictureModel("gemma4").source();
  const auto refused = [&](const std::string& key, const Json& value) {
    return refusal_at(gemma4, "/vision_config/" + key, value);
  };
  const std::string begin = "reading vision_config: ";
  EXPECT_EQ(refused("model_type", "gemma4_unified_vision"),
            begin + "model_type is 'gemma4_unified_vision', expected gemma4_vision");
  EXPECT_EQ(refused("head_dim", 6), begin + "head_dim is 6, expected a multiple of 4");
  EXPECT_EQ(refused("num_key_value_heads", nullptr), begin + "num_key_value_heads is 12, expected a divisor of 2");
  for (const int side : {1, 17})
    EXPECT_EQ(refused("pooling_kernel_size", side),
              begin + "pooling_kernel_size is " + std::to_string(side) + ", expected 2 to 16");
  EXPECT_EQ(refused("patch_size", 257), begin + "patch_size is 257, expected at most 256");
  EXPECT_EQ(refused("rope_parameters", {{"rope_type", "yarn"}}), begin + "rope_type is 'yarn', expected axial");
  EXPECT_TRUE(refused("hidden_activation", "xielu").starts_with(begin + "unknown hidden_activation 'xielu'"));
  EXPECT_EQ(refused("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 100.0}}), "no error");
}

TEST(PictureRefusals, name_what_a_tower_of_glm4v_takes) {
  const std::string begin = "reading vision_config: ";
  EXPECT_EQ(refusal_of("glm4v", "hidden_size", 18), begin + "hidden_size is 18, expected a multiple of 8");
  EXPECT_EQ(refusal_of("glm4v", "out_hidden_size", 32), begin + "out_hidden_size is 32, expected 48");
  EXPECT_EQ(refusal_of("glm4v", "image_size", 3), begin + "image_size is 3, expected 1 to 1,024 patches of 4");
  EXPECT_TRUE(refusal_of("glm4v_moe", "hidden_act", "xielu").starts_with(begin + "unknown hidden_act 'xielu'"));
  EXPECT_EQ(refusal_of("glm4v_moe", "rope_parameters", {{"rope_theta", 100.0}}),
            begin + "rope_theta is 100.000000, expected 10000");
}

TEST(PictureRefusals, name_what_a_tower_of_llama_4_takes) {
  const std::filesystem::path llama4 = PictureModel("llama4_dense").source();
  const auto refused = [&](const std::string& key, const Json& value) {
    return refusal_at(llama4, "/vision_config/" + key, value);
  };
  const std::string begin = "reading vision_config: ";
  EXPECT_EQ(refused("model_type", "clip_vision_model"),
            begin + "model_type is 'clip_vision_model', expected llama4_vision_model");
  EXPECT_EQ(refused("hidden_act", "silu"), begin + "hidden_act is 'silu', expected gelu");
  EXPECT_EQ(refused("hidden_size", 12), begin + "hidden_size is 12, expected a multiple of 8");
  EXPECT_EQ(refused("image_size", 18), begin + "image_size is 18, expected at most 1,024 whole patches of 4");
  EXPECT_EQ(refused("image_size", 20), begin + "image_size is 20, expected whole squares of 8");
  EXPECT_EQ(refused("num_channels", 1), begin + "num_channels is 1, expected 3");
  EXPECT_EQ(refused("pixel_shuffle_ratio", 0.25), begin + "pixel_shuffle_ratio is 0.250000, expected 0.5");
  EXPECT_EQ(refused("multi_modal_projector_bias", true), begin + "multi_modal_projector_bias is true, expected false");
  EXPECT_EQ(refused("intermediate_size", 48), begin + "intermediate_size is 48, expected 64");
  EXPECT_EQ(refused("projector_input_dim", 16),
            begin + "projector_input_dim is 16, expected the projector_output_dim 12");
  EXPECT_EQ(refused("vision_output_dim", 16), begin + "vision_output_dim is 16, expected the projector_output_dim 12");
  EXPECT_EQ(refused("rope_parameters", {{"rope_type", "yarn"}}), begin + "rope_type is 'yarn', expected axial");
  EXPECT_EQ(refused("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 100.0}}), "no error");
}

TEST(PictureRefusals, name_what_a_projector_takes) {
  const std::filesystem::path internvl = Golden("internvl").folder, mistral3 = Golden("mistral3").folder,
                              llava = Golden("llava").folder, pixtral = PictureModel("llava_pixtral").source();
  EXPECT_EQ(refusal_at(internvl, "/downsample_ratio", 0.25),
            "reading vision_config: downsample_ratio is 0.250000, expected 0.5");
  EXPECT_EQ(refusal_at(internvl, "/vision_feature_layer", -2),
            "reading vision_config: vision_feature_layer is -2, expected -1");
  EXPECT_EQ(refusal_at(internvl, "/vision_feature_select_strategy", "full"),
            "reading vision_config: vision_feature_select_strategy is 'full', expected default");
  EXPECT_EQ(refusal_at(mistral3, "/vision_feature_layer", -2),
            "reading vision_config: vision_feature_layer is -2, expected -1");
  EXPECT_EQ(refusal_at(mistral3, "/vision_feature_layer", {-2, -1}),
            "reading vision_config: key 'vision_feature_layer' is a list of 2, expected a whole number");
  EXPECT_EQ(refusal_at(mistral3, "/spatial_merge_size", 17),
            "reading vision_config: spatial_merge_size is 17, expected at most 16");
  EXPECT_EQ(refusal_at(PictureModel("idefics3").source(), "/scale_factor", 4),
            "reading vision_config: scale_factor is 4, expected a divisor of 6");
  EXPECT_EQ(refusal_at(pixtral, "/vision_feature_select_strategy", "default"),
            "reading vision_config: vision_feature_select_strategy is 'default', expected full");
  EXPECT_EQ(refusal_at(llava, "/vision_feature_select_strategy", "full"),
            "reading vision_config: vision_feature_select_strategy is 'full', expected default");
  EXPECT_EQ(refusal_at(llava, "/vision_feature_layer", -3),
            "reading vision_config: vision_feature_layer is -3, expected -2 to -1");
}

TEST(PictureRefusals, name_what_a_tower_of_internvl_chat_takes) {
  const std::filesystem::path chat = PictureModel("internvl_chat").source();
  const auto refused = [&](const char* pointer, const Json& value) {
    const Json config = read_json_file(chat / "config.json");
    Json other = config;
    other[Json::json_pointer(pointer)] = value;
    return message_of([&] { read_tower(other, parse_model(with_image_token(config, chat))->spec()); });
  };
  const std::string begin = "reading vision_config: ";
  EXPECT_EQ(refused("/ps_version", "v1"), begin + "ps_version is 'v1', expected v2");
  EXPECT_EQ(refused("/downsample_ratio", 0.25), begin + "downsample_ratio is 0.250000, expected 0.5");
  EXPECT_EQ(refused("/select_layer", 1), begin + "select_layer is 1, expected -2 to -1");
  EXPECT_EQ(refused("/force_image_size", 32), begin + "force_image_size is 32, expected the vision_config's 16");
  EXPECT_EQ(refused("/vision_config/image_size", 18), begin + "image_size is 18, expected whole patches of 4");
  EXPECT_EQ(refused("/vision_config/norm_type", "batch_norm"),
            begin + "norm_type is 'batch_norm', expected layer_norm or rms_norm");
  const Json config = read_json_file(chat / "config.json");
  EXPECT_EQ(message_of([&] { read_tower(config, parse_model(config)->spec()); }),
            "neither config.json nor tokenizer_config.json names the token of an image");
  EXPECT_EQ(with_image_token(config, chat)["image_token_id"], 92);
  EXPECT_EQ(with_image_token({{"architectures", {"LlamaForCausalLM"}}}, chat).size(), 1U);
}

TEST(PictureRefusals, name_what_a_canvas_takes) {
  const std::filesystem::path next = PictureModel("llava_next").source(),
                              one = PictureModel("llava_onevision").source();
  const auto of_canvas = [&](const Json& value) { return refusal_at(next, "/image_grid_pinpoints", value); };
  const std::string begin = "reading vision_config: image_grid_pinpoints ";
  EXPECT_EQ(of_canvas(Json::array()), begin + "is not a list of sizes");
  EXPECT_EQ(of_canvas("(1x1),...,(6x6)"), begin + "is not a list of sizes");
  EXPECT_EQ(of_canvas({{14, 28, 3}}), begin + "holds [14,28,3], expected height and width");
  EXPECT_EQ(of_canvas({{14, 28.5}}), begin + "holds [14,28.5], expected height and width");
  EXPECT_EQ(of_canvas({{14, 20}}), begin + "holds 20, expected whole tiles of 14");
  EXPECT_EQ(of_canvas({{14, 0}}), begin + "holds 0, expected whole tiles of 14");
  EXPECT_EQ(of_canvas({{70000, 14}}), begin + "holds 70000, expected whole tiles of 14");
  EXPECT_EQ(of_canvas(nullptr), "no error");
  for (const char* ratio : {"pad", "anyres", "anyres_max_", "anyres_max_0", "anyres_max_-3", "anyres_max_99999"})
    EXPECT_EQ(refusal_at(one, "/vision_aspect_ratio", ratio), "reading vision_config: vision_aspect_ratio is '" +
                                                                  std::string(ratio) +
                                                                  "', expected anyres_max_9 or the like");
  EXPECT_EQ(refusal_at(one, "/vision_feature_select_strategy", "default"),
            "reading vision_config: vision_feature_select_strategy is 'default', expected full");
  EXPECT_EQ(refusal_at(next, "/vision_feature_select_strategy", "full"),
            "reading vision_config: vision_feature_select_strategy is 'full', expected default");
  EXPECT_EQ(refusal_at(next, "/vision_feature_layer", {-2, -1}),
            "reading vision_config: key 'vision_feature_layer' is a list of 2, expected a whole number");
  EXPECT_EQ(refusal_at(one, "/vision_feature_layer", 0),
            "reading vision_config: vision_feature_layer is 0, expected -3 to -1");
}

}  // namespace
}  // namespace kvcal
