// Configs of Kimi-Linear: which layers own a cache, in all spellings, and what the others own instead.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/message_of.h"
#include "model/architecture.h"

namespace kvcal {
namespace {

Json lists(std::vector<int> kda, std::vector<int> full) {
  return {{"kda_layers", std::move(kda)},
          {"full_attn_layers", std::move(full)},
          {"num_heads", 2},
          {"head_dim", 16},
          {"short_conv_kernel_size", 4}};
}

Json kimi(const Json& changes = Json::object()) {
  Json config = {{"architectures", {"KimiLinearForCausalLM"}},
                 {"vocab_size", 100},
                 {"hidden_size", 64},
                 {"intermediate_size", 128},
                 {"moe_intermediate_size", 32},
                 {"num_hidden_layers", 4},
                 {"num_attention_heads", 4},
                 {"head_dim", 72},
                 {"num_key_value_heads", 3},
                 {"kv_lora_rank", 48},
                 {"q_lora_rank", nullptr},
                 {"qk_nope_head_dim", 12},
                 {"qk_rope_head_dim", 8},
                 {"v_head_dim", 20},
                 {"num_experts", 16},
                 {"num_experts_per_token", 2},
                 {"model_max_length", 4096},
                 {"linear_attn_config", lists({1, 3}, {2, 4})}};
  config.update(changes);
  return config;
}

ModelSpec spec_of(const Json& config) { return parse_model(config)->spec(); }

void expect_refused(const Json& changes, const std::string& part) {
  const std::string message = message_of([&] { parse_model(kimi(changes)); });
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(KimiLinearConfig, layers_count_from_1_and_the_row_is_latent_and_rope_part_that_nothing_turns) {
  const ModelSpec spec = spec_of(kimi());
  ASSERT_EQ(spec.caches.size(), 2U);
  EXPECT_EQ(spec.max_positions, 4096);
  const KvLayout& c = spec.caches[1];
  EXPECT_EQ(c.layer, 3);
  EXPECT_EQ(c.name, "layers.3.self_attn");
  EXPECT_TRUE(c.is_mla());
  EXPECT_EQ(c.n_heads, 4);
  EXPECT_EQ(c.head_dim_k, 56);
  EXPECT_EQ(c.latent_dim, 48);
  EXPECT_EQ(c.rotary_dim, 0);
  EXPECT_EQ(c.pair_bound, PairBound::None);
  EXPECT_DOUBLE_EQ(c.softmax_scale, 1 / std::sqrt(20.0));
  EXPECT_EQ(spec.layers[0].kind, LayerKind::KimiDeltaAttention);
}

TEST(KimiLinearConfig, a_delta_layer_owns_a_window_and_a_matrix_for_each_head) {
  // 2 heads of 16: 96 channels with a window of 3 in bf16, two matrices of 16 x 16 in f32.
  const LayerSpec layer = spec_of(kimi({{"first_k_dense_replace", 4}})).layers[0];
  EXPECT_EQ(layer.state_bytes, 3 * 96 * 2 + 2 * 16 * 16 * 4);
  const int64_t projections = 4 * 64 * 32 + 2 * 16 * 64 + 2 * 32 * 16 + 2 * 64, small = 96 * 4 + 2 + 32 + 16;
  EXPECT_EQ(layer.parameters, projections + small + 2 * 64 + 3 * 64 * 128);
}

TEST(KimiLinearConfig, newer_saves_spell_everything_otherwise) {
  Json newer = kimi({{"layer_types", {"linear_attention", "full_attention", "linear_attention", "full_attention"}},
                     {"linear_num_heads", 2},
                     {"linear_head_dim", 16},
                     {"linear_conv_kernel_dim", 4},
                     {"max_position_embeddings", 4096},
                     {"num_local_experts", 16},
                     {"num_experts_per_tok", 2},
                     {"mlp_layer_types", {"dense", "sparse", "sparse", "sparse"}}});
  for (const char* key : {"linear_attn_config", "model_max_length", "num_experts", "num_experts_per_token"})
    newer.erase(key);
  const ModelSpec a = spec_of(kimi()), b = spec_of(newer);
  EXPECT_EQ(a.max_positions, b.max_positions);
  for (size_t i = 0; i < a.layers.size(); ++i) {
    EXPECT_EQ(a.layers[i].cache, b.layers[i].cache) << i;
    EXPECT_EQ(a.layers[i].parameters, b.layers[i].parameters) << i;
    EXPECT_EQ(a.layers[i].state_bytes, b.layers[i].state_bytes) << i;
  }
}

TEST(KimiLinearConfig, layer_lists_that_contradict_themselves_are_refused) {
  const auto with = [](Json layers) { return Json{{"linear_attn_config", std::move(layers)}}; };
  expect_refused(with(lists({1, 3}, {2, 4, 3})), "lists layer 3 (counted from 1) twice");
  expect_refused(with(lists({1, 3}, {4})), "does not list layer 2 (counted from 1)");
  expect_refused(with(lists({0, 1, 2}, {3})), "kda_layers holds '0', expected layer numbers from 1 to 4");
  expect_refused(with(lists({1, 2, 3}, {4, 5})), "full_attn_layers holds '5'");
  expect_refused(with({{"kda_layers", {1, 2}}}), "no list 'full_attn_layers'");
  expect_refused(with({{"num_heads", 2}}), "says which layers own a cache");
  expect_refused(with(3), "linear_attn_config is not an object");
  expect_refused({{"layer_types", {"linear_attention", "linear_attention", "linear_attention", "full_attention"}}},
                 "layer_types and linear_attn_config disagree");
}

TEST(KimiLinearConfig, what_is_not_computed_is_refused_by_name) {
  Json bounded = lists({1, 3}, {2, 4}), full_rank = bounded;
  bounded["gate_lower_bound"] = -5.0;
  full_rank["use_full_rank_gate"] = true;
  expect_refused({{"linear_attn_config", bounded}}, "'gate_lower_bound'");
  expect_refused({{"linear_attn_config", full_rank}}, "'use_full_rank_gate'");
  expect_refused({{"mla_use_output_gate", true}}, "'mla_use_output_gate'");
  expect_refused({{"attn_res_block_size", 12}}, "'attn_res_block_size': this variant of Kimi-K3 is not supported");
  expect_refused({{"routed_expert_hidden_size", 16}}, "'routed_expert_hidden_size'");
  expect_refused({{"hidden_act", "situ"}}, "hidden_act is 'situ'");
  expect_refused({{"mla_use_nope", false}}, "mla_use_nope is false");
  expect_refused({{"moe_router_activation_func", "softmax"}}, "moe_router_activation_func");
  expect_refused({{"num_expert_group", 4}, {"topk_group", 2}, {"use_grouped_topk", false}},
                 "use_grouped_topk is false");
  expect_refused({{"num_experts_per_token", 17}}, "num_experts_per_token 17");
  expect_refused({{"num_shared_experts", -1}}, "num_shared_experts is -1");
  EXPECT_EQ(spec_of(kimi({{"mla_use_output_gate", false}})).caches.size(), 2U);
}

}  // namespace
}  // namespace kvcal
