// Configs of Ling-2.5, whose layers keep a state of lightning attention or a latent row.
#include <gtest/gtest.h>

#include "harness/message_of.h"
#include "model/architecture.h"

namespace kvcal {
namespace {

Json ling(const Json& changes = Json::object()) {
  Json config = {{"architectures", {"BailingMoeV2_5ForCausalLM"}},
                 {"vocab_size", 100},
                 {"hidden_size", 64},
                 {"intermediate_size", 128},
                 {"num_hidden_layers", 4},
                 {"num_attention_heads", 4},
                 {"head_dim", 16},
                 {"kv_lora_rank", 48},
                 {"q_lora_rank", 24},
                 {"qk_nope_head_dim", 12},
                 {"qk_rope_head_dim", 8},
                 {"v_head_dim", 20},
                 {"partial_rotary_factor", 0.5},
                 {"rope_theta", 6e6},
                 {"layer_group_size", 2},
                 {"group_norm_size", 4},
                 {"first_k_dense_replace", 1},
                 {"num_experts", 8},
                 {"num_experts_per_tok", 2},
                 {"num_shared_experts", 1},
                 {"moe_intermediate_size", 32}};
  config.update(changes);
  return config;
}

TEST(LightningConfig, layers_keep_a_state_or_a_latent_row) {
  const ModelSpec spec = parse_model(ling())->spec();
  EXPECT_EQ(spec.layers[0].kind, LayerKind::LightningAttention);
  EXPECT_EQ(spec.layers[0].state_bytes, 4 * 16 * 16 * 4) << "a matrix for each head in f32, and no window";
  EXPECT_EQ(spec.layers[0].conv_bytes, 0);
  ASSERT_EQ(spec.caches.size(), 2U);
  EXPECT_EQ(spec.caches[0].layer, 1);
  EXPECT_EQ(spec.caches[0].name, "layers.1.attention");
  EXPECT_EQ(spec.caches[0].head_dim_k, 48 + 8);
  EXPECT_EQ(spec.caches[0].rotary_dim, 8) << "all of the row's part, whatever share of a head turns elsewhere";
  EXPECT_EQ(spec.layers[1].attention.module, "layers.1.attention.");
  EXPECT_EQ(spec.layers[1].attention.output, "dense");
  EXPECT_EQ(spec.embedding, "word_embeddings.weight");
}

TEST(LightningConfig, refusals) {
  const auto expect_refusal = [](const Json& config, const std::string& part) {
    const std::string message = message_of([&] { parse_model(config); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect_refusal(ling({{"group_norm_size", 3}}), "group_norm_size is 3, expected a divisor");
  expect_refusal(ling({{"layer_group_size", 3}}), "layer_group_size is 3, expected a divisor of num_hidden_layers, 4");
  expect_refusal(ling({{"num_kv_heads_for_linear_attn", 2}}), "as many as query heads, 4");
  expect_refusal(ling({{"lightning_layerwise_decay", false}}), "which SGLang alone reads");
  expect_refusal(ling({{"full_attention_type", "gqa"}}), "full_attention_type");
  expect_refusal(ling({{"linear_silu", true}}), "linear_silu is true; the class is read without");
  expect_refusal(ling({{"rope_scaling", {{"type", "yarn"}, {"factor", 4}}}}), "RoPE is scaled");
  expect_refusal(ling({{"rope_parameters", {{"rope_type", "yarn"}, {"factor", 4}}}}), "RoPE is scaled");
  expect_refusal(ling({{"use_qkv_bias", true}}), "use_qkv_bias is true");
  expect_refusal(ling({{"kv_lora_rank", nullptr}}), "kv_lora_rank is null");
  for (const char* key : {"first_k_dense_replace", "rope_theta"}) {  // of which servers have different defaults
    Json silent = ling();
    silent.erase(key);
    expect_refusal(silent, key);
  }
  EXPECT_EQ(message_of([] {
              Json newer = ling({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 6e6}}}});
              newer.erase("rope_theta");
              parse_model(newer);
            }),
            "no error");
}

}  // namespace
}  // namespace kvcal
