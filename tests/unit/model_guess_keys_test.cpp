// Which keys of a class that is not read tell its layers and weights, and what is said of those that are not
// understood.
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/architecture.h"
#include "model/config_guess.h"

namespace kvcal {
namespace {

/// 4 layers, 8 query heads, 2 KV heads of 16; null erases a key.
Json bar(const Json& changes = Json::object()) {
  Json config = {{"architectures", {"BarForCausalLM"}},
                 {"model_type", "bar"},
                 {"num_hidden_layers", 4},
                 {"hidden_size", 64},
                 {"num_attention_heads", 8},
                 {"num_key_value_heads", 2},
                 {"head_dim", 16},
                 {"vocab_size", 100}};
  config.merge_patch(changes);
  return config;
}

GuessedModel guessed(const Json& config) {
  const std::optional<GuessedModel> guess = guess_unknown_class(config);
  if (!guess) fail("nothing is guessed");
  return *guess;
}

/// "f" for a layer that keeps every position, "w" for one with a window, "-" for one without a cache.
std::string kinds_of(const Json& changes) {
  const GuessedModel g = guessed(bar(changes));
  std::string kinds;
  for (const LayerSpec& l : g.spec.layers)
    kinds += l.cache < 0 ? '-' : g.spec.caches[static_cast<size_t>(l.cache)].window > 0 ? 'w' : 'f';
  return kinds;
}

std::string open_of(const Json& changes) { return guessed(bar(changes)).open; }

void expect_open(const Json& changes, const std::string& part) {
  EXPECT_NE(open_of(changes).find(part), std::string::npos) << changes << " leaves open: " << open_of(changes);
}

TEST(GuessKeys, TellWhichLayersAttend) {
  EXPECT_EQ(kinds_of({{"linear_attn_config", {{"full_attn_layers", {4}}, {"kda_layers", {1, 2, 3}}}}}), "---f");
  EXPECT_EQ(kinds_of({{"attn_layer_indices", {1, 3}}}), "-f-f");
  EXPECT_EQ(kinds_of({{"full_attn_idxs", {2}}}), "--f-");
  EXPECT_EQ(kinds_of({{"hybrid_layer_ids", {0}}}), "f---");
  EXPECT_EQ(kinds_of({{"block_types", {"recurrent", "attention"}}}), "-f-f");
  EXPECT_EQ(kinds_of({{"mixer_types", {"attention", "lightning-attn", "lightning-attn", "attention"}}}), "f--f");
  EXPECT_EQ(kinds_of({{"num_hidden_layers", nullptr}, {"layers_block_type", {"mamba", "moe", "attention"}}}), "--f");
  EXPECT_EQ(kinds_of({{"num_hidden_layers", nullptr}, {"hybrid_override_pattern", "ME*"}}), "--f");
}

TEST(GuessKeys, TellWhichLayersHaveWindows) {
  const auto kinds = [](Json changes) {
    changes["sliding_window"] = 8;
    EXPECT_EQ(open_of(changes), "") << changes;
    return kinds_of(changes);
  };
  EXPECT_EQ(kinds({{"hybrid_layer_pattern", {0, 1, 1, 0}}}), "fwwf");
  EXPECT_EQ(kinds({{"sliding_window_pattern", 2}}), "wfwf");
  EXPECT_EQ(kinds({{"_sliding_window_pattern", 4}}), "wwwf");
  EXPECT_EQ(kinds({{"max_window_layers", 3}, {"use_sliding_window", true}}), "fffw");
}

TEST(GuessKeys, TellHeads) {
  const auto heads = [](Json changes) {
    changes["num_key_value_heads"] = nullptr;
    EXPECT_EQ(open_of(changes), "") << changes;
    return guessed(bar(changes)).spec.caches[0].n_kv_heads;
  };
  EXPECT_EQ(heads({{"multi_query", true}}), 1);
  EXPECT_EQ(heads({{"attn_config", {{"kv_n_heads", 4}, {"clip_qkv", 8}}}}), 4);
  EXPECT_EQ(heads({{"multi_query_attention", true}, {"multi_query_group_num", 2}}), 2);
  const Json attends = {{"attention", {{"n_heads_in_group", 4}, {"no_op", false}}}};
  const Json skips = {{"attention", {{"n_heads_in_group", nullptr}, {"no_op", true}}}};
  const Json blocks = {{"num_key_value_heads", nullptr}, {"block_configs", {attends, skips, attends, skips}}};
  EXPECT_EQ(kinds_of(blocks), "f-f-");
  EXPECT_EQ(heads(blocks), 2);
}

TEST(GuessKeys, ThatAreNotUnderstoodAreNamed) {
  for (const char* key : {"global_head_dim", "num_global_key_value_heads", "swa_head_dim", "num_key_value_groups",
                          "interleaved_sliding_window", "compress_ratios", "per_layer_config"})
    expect_open({{key, 4}}, "not read, and may tell otherwise: '" + std::string(key) + "'");
  expect_open({{"layer_types", {"full_attention", "foo", "foo", "foo"}}}, "layers called 'foo' count as attention");
  expect_open({{"block_configs", {{{"attention", {{"window_length", 8}}}}}}}, "'block_configs'");
  expect_open({{"layer_types", {"conv", "conv", "conv", "full_attention"}}, {"full_attn_idxs", {0}}},
              "'full_attn_idxs'");
  expect_open({{"attn_layer_period", 4}}, "'attn_layer_period'");
  expect_open({{"kv_lora_rank", 32}, {"qk_rope_head_dim", 8}}, "one that does not caches whole heads");
  expect_open({{"head_dim", nullptr}}, "heads are as wide as the hidden size over their number");
  expect_open({{"time_step_rank", 8}}, "speak of recurrent layers");
  expect_open({{"model_type", "rwkv9"}}, "speak of recurrent layers");
  expect_open({{"architectures", {"BarModel"}}}, "its name does not say that it generates text");
  const Json full = {"full_attention", "full_attention", "full_attention", "full_attention"};
  EXPECT_EQ(open_of({{"sliding_window", 8}, {"layer_types", full}}), "");
  EXPECT_EQ(open_of({{"mlp_bias", true}, {"layer_norm_eps", 3}, {"num_experts_per_tok", 2}}), "");
}

TEST(GuessKeys, ThatCannotBeRightTellNothing) {
  for (const Json& bad : {Json(3), Json(16), Json(-1), Json("2"), Json(1.5), Json{2, 2}})
    EXPECT_FALSE(guess_unknown_class(bar({{"num_key_value_heads", bad}}))) << bad;
  EXPECT_FALSE(guess_unknown_class(bar({{"vocab_size", nullptr}, {"image_size", 224}})));
  EXPECT_FALSE(guess_unknown_class(bar({{"is_causal", false}})));
}

/// Of all layers; 0 where they are not known.
int64_t parameters(const Json& changes) {
  Json config = bar({{"hidden_act", "silu"}, {"intermediate_size", 96}, {"tie_word_embeddings", false}});
  config.merge_patch(changes);
  int64_t n = 0;
  for (const LayerSpec& layer : guessed(config).spec.layers) n += layer.parameters;
  return n;
}

TEST(GuessKeys, TellWeightsOfPlainDecoders) {
  constexpr int64_t kAttention = 64 * 16 * (8 + 2) * 2, kExperts = 3 * 64 * 24 * (5 + 1) + 64 * 5;
  EXPECT_EQ(parameters(Json::object()), 4 * (kAttention + 3 * 64 * 96));
  EXPECT_EQ(parameters({{"n_routed_experts", 5},
                        {"n_shared_experts", 1},
                        {"moe_intermediate_size", 24},
                        {"first_k_dense_replace", 1}}),
            4 * kAttention + 3 * 64 * 96 + 3 * kExperts);
}

TEST(GuessKeys, DoNotTellOtherWeights) {
  for (const Json& other :
       {Json{{"hidden_act", "gelu"}}, Json{{"intermediate_size", nullptr}}, Json{{"tie_word_embeddings", nullptr}},
        Json{{"moe_latent_size", 8}}, Json{{"layer_types", {"conv", "conv", "conv", "full_attention"}}},
        Json{{"kv_lora_rank", 32}, {"qk_rope_head_dim", 8}}, Json{{"moe_layer_freq", 2}, {"num_experts", 4}},
        Json{{"hidden_size_per_layer_input", 8}}, Json{{"hybrid_override_pattern", "*-*-"}}})
    EXPECT_EQ(parameters(other), 0) << other;
}

}  // namespace
}  // namespace kvcal
