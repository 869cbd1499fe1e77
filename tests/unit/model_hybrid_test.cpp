// Configs of hybrids, as published and in the current form: layer lists in all their spellings, what owns a cache or a
// state, widths, refusals.
#include <gtest/gtest.h>

#include "harness/message_of.h"
#include "model/architecture.h"

namespace kvcal {
namespace {

Json model(const char* architecture, Json changes = Json::object()) {
  Json config = {{"architectures", {architecture}}, {"vocab_size", 100},      {"hidden_size", 64},
                 {"intermediate_size", 128},        {"num_hidden_layers", 4}, {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},        {"mamba_n_heads", 8}};
  config.update(changes);
  return config;
}

Json nemotron(Json changes) {
  Json config = model("NemotronHForCausalLM", {{"mamba_num_heads", 8}, {"mamba_head_dim", 16}, {"n_groups", 2}});
  config.erase("num_hidden_layers");
  config.update(changes);
  return config;
}

ModelSpec spec_of(const Json& config) { return parse_model(config)->spec(); }

std::string kinds(const Json& config) {
  std::string text;
  for (const LayerSpec& l : spec_of(config).layers) text += std::string(name_of(l.kind)) + " ";
  return text;
}

std::vector<int> cache_layers(const Json& config) {
  std::vector<int> layers;
  for (const KvLayout& c : spec_of(config).caches) layers.push_back(c.layer);
  return layers;
}

void expect_refusal(const Json& config, const std::string& part) {
  const std::string message = message_of([&] { parse_model(config); });
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

using Layers = std::vector<int>;

TEST(HybridConfig, nemotrons_layers_are_letters_or_words_and_say_their_number) {
  const std::string expected = "mamba2 feed_forward attention feed_forward mamba2 ";
  EXPECT_EQ(kinds(nemotron({{"hybrid_override_pattern", "M-*EM"}})), expected);
  EXPECT_EQ(kinds(nemotron({{"layers_block_type", {"mamba", "mlp", "attention", "moe", "mamba"}}})), expected);
  EXPECT_EQ(
      kinds(nemotron({{"layers_block_type", {"linear_attention", "mlp", "full_attention", "moe", "linear_attention"}},
                      {"hybrid_override_pattern", "*"},
                      {"num_hidden_layers", 3}})),
      expected)
      << "words go before letters, and both before the number";
  EXPECT_EQ(kinds(nemotron({{"hybrid_override_pattern", "M*"}, {"mtp_hybrid_override_pattern", "*E"}})),
            "mamba2 attention ")
      << "layers that only predict further tokens are not appended";
  expect_refusal(nemotron({{"hybrid_override_pattern", "M+"}}), "hybrid_override_pattern holds '+'");
  expect_refusal(nemotron({{"layers_block_type", {"mamba", "gru"}}}), "unknown word in layers_block_type 'gru'");
  expect_refusal(nemotron({{"layers_block_type", 4}}), "layers_block_type is not a list");
}

TEST(HybridConfig, nemotrons_cache_belongs_to_the_mixer_and_has_no_rope) {
  const ModelSpec spec = spec_of(nemotron({{"hybrid_override_pattern", "M*"}, {"attention_head_dim", 24}}));
  ASSERT_EQ(spec.caches.size(), 1u);
  const KvLayout& c = spec.caches[0];
  EXPECT_EQ(c.name, "layers.1.mixer");
  EXPECT_EQ(c.head_dim_k, 24);
  EXPECT_EQ(c.rotary_dim, 0);
  EXPECT_EQ(c.pair_bound, PairBound::None);
  EXPECT_EQ(spec.default_prefix + spec.embedding, "backbone.embeddings.weight");
  EXPECT_EQ(spec_of(nemotron({{"hybrid_override_pattern", "*"}})).caches[0].head_dim_k, 128) << "the class default";
  EXPECT_EQ(spec_of(nemotron({{"hybrid_override_pattern", "*"}, {"sliding_window", 9}})).caches[0].window, 9);
}

TEST(HybridConfig, nemotrons_feed_forwards_may_have_widths_of_their_own) {
  const auto parameters = [](const Json& widths) {
    std::vector<int64_t> n;
    for (const LayerSpec& l :
         spec_of(nemotron({{"hybrid_override_pattern", "-*-"}, {"intermediate_size", widths}})).layers)
      n.push_back(l.parameters);
    return n;
  };
  const int64_t norm = 64, attention = 64 * 128 * (4 + 2 + 2 + 4) + norm;
  EXPECT_EQ(parameters(10), (std::vector<int64_t>{2 * 64 * 10 + norm, attention, 2 * 64 * 10 + norm}));
  EXPECT_EQ(parameters({10, 20}), (std::vector<int64_t>{2 * 64 * 10 + norm, attention, 2 * 64 * 20 + norm}));
  EXPECT_EQ(parameters(Json::array({10})), parameters(10));
  expect_refusal(nemotron({{"hybrid_override_pattern", "-*-"}, {"intermediate_size", {1, 2, 3}}}),
                 "intermediate_size has 3 entries, expected 1 or 2");
}

TEST(HybridConfig, nemotrons_variants_that_are_not_read_are_refused) {
  const auto with = [](Json changes) {
    changes["hybrid_override_pattern"] = "ME*";
    return nemotron(changes);
  };
  EXPECT_EQ(cache_layers(with(Json::object())), Layers{2});
  expect_refusal(with({{"mlp_hidden_act", "gelu"}}), "mlp_hidden_act is 'gelu'");
  expect_refusal(with({{"mamba_hidden_act", "relu"}}), "mamba_hidden_act is 'relu'");
  expect_refusal(with({{"attention_bias", true}}), "attention_bias");
  expect_refusal(with({{"mlp_bias", true}}), "mlp_bias with experts");
  expect_refusal(with({{"n_groups", 3}}), "8 Mamba heads are not a multiple of 3 groups");
  expect_refusal(with({{"n_group", 3}}), "n_group 3");
  expect_refusal(with({{"layer_norm_epsilon", 0}}), "layer_norm_epsilon");
  expect_refusal(with({{"routed_scaling_factor", 1e300}}), "routed_scaling_factor is not a finite number");
  expect_refusal(with({{"mamba_num_heads", 2000000000}, {"mamba_head_dim", 2000000000}}), "is too large");
}

TEST(HybridConfig, mamba2_state_is_the_window_and_a_matrix_for_each_head) {
  // 8 heads of 16, 2 groups of 128 states: 128 + 2 · 256 channels, a window of 3 in bf16, the state in f32.
  const ModelSpec spec = spec_of(nemotron({{"hybrid_override_pattern", "M"}}));
  EXPECT_EQ(spec.layers[0].state_bytes, 3 * (128 + 2 * 256) * 2 + 8 * 16 * 128 * 4);
}

TEST(HybridConfig, granites_layers_in_both_spellings) {
  const auto with = [](Json types) {
    return model("GraniteMoeHybridForCausalLM", {{"layer_types", types}, {"attention_multiplier", 0.25}});
  };
  EXPECT_EQ(cache_layers(with({"mamba", "attention", "mamba", "attention"})), (Layers{1, 3}));
  EXPECT_EQ(cache_layers(with({"linear_attention", "full_attention", "mamba", "mamba"})), Layers{1});
  const KvLayout c = spec_of(with({"mamba", "attention", "mamba", "mamba"})).caches[0];
  EXPECT_EQ(c.softmax_scale, 0.25);
  EXPECT_EQ(c.rotary_dim, 0) << "no position embedding unless asked for";
  Json turned = with({"mamba", "attention", "mamba", "mamba"});
  turned["position_embedding_type"] = "rope";
  EXPECT_EQ(spec_of(turned).caches[0].rotary_dim, 16);
  turned["position_embedding_type"] = "alibi";
  expect_refusal(turned, "unknown position_embedding_type 'alibi'");
  expect_refusal(with({"mamba", "sliding_attention", "mamba", "mamba"}), "'sliding_attention'");
  expect_refusal(with({"mamba"}), "layer_types has 1 entries, expected 4");
  expect_refusal(model("GraniteMoeHybridForCausalLM", {{"logits_scaling", 0}}), "logits_scaling is 0");
  expect_refusal(model("GraniteMoeHybridForCausalLM", {{"mamba_d_head", 7}}), "do not make the inner width 128");
}

TEST(HybridConfig, bambas_attention_layers_are_numbers_and_turn_half_a_head) {
  const auto with = [](Json changes) { return model("BambaForCausalLM", changes); };
  EXPECT_EQ(cache_layers(with({{"attn_layer_indices", {3, 0}}})), (Layers{0, 3}));
  EXPECT_EQ(cache_layers(with({{"attn_layer_indices", nullptr}})), Layers{});
  EXPECT_EQ(spec_of(with({{"attn_layer_indices", {1}}, {"attn_rotary_emb", 8}})).caches[0].rotary_dim, 8);
  expect_refusal(with({{"attn_layer_indices", {4}}}), "attn_layer_indices holds '4', expected layer numbers below 4");
  expect_refusal(with({{"attn_rotary_emb", 16}}), "RoPE over 16 of 16 dimensions");
}

TEST(HybridConfig, jambas_layers_by_period_and_offset) {
  EXPECT_EQ(cache_layers(model("JambaForCausalLM", {{"num_hidden_layers", 16}})), (Layers{4, 12}));
  EXPECT_EQ(cache_layers(model("JambaForCausalLM", {{"attn_layer_period", 2}, {"attn_layer_offset", 1}})),
            (Layers{1, 3}));
  EXPECT_EQ(cache_layers(model("JambaForCausalLM", {{"layers_block_type", {"mamba", "mamba", "attention", "mamba"}}})),
            Layers{2});
  EXPECT_EQ(spec_of(model("JambaForCausalLM")).layers[0].state_bytes, 3 * 128 * 2 + 128 * 16 * 4);
  expect_refusal(model("JambaForCausalLM", {{"attn_layer_period", 4}}), "attn_layer_offset 4 is not below");
  expect_refusal(model("JambaForCausalLM", {{"mamba_d_state", 300}}), "mamba_d_state is 300, expected at most 256");
  expect_refusal(model("JambaForCausalLM", {{"num_experts_per_tok", 17}}), "does not fit num_experts 16");
}

TEST(HybridConfig, lfm2s_layers_width_and_tying_in_both_spellings) {
  const auto with = [](Json changes) { return model("Lfm2ForCausalLM", changes); };
  const Json types = {"conv", "conv", "full_attention", "conv"};
  EXPECT_EQ(cache_layers(with({{"layer_types", types}})), Layers{2});
  EXPECT_EQ(cache_layers(with({{"full_attn_idxs", {1, 3}}})), (Layers{1, 3}));
  EXPECT_EQ(cache_layers(with(Json::object())), (Layers{0, 1, 2, 3}));
  EXPECT_EQ(spec_of(with({{"layer_types", types}})).layers[0].state_bytes, 2 * 64 * 2);
  EXPECT_TRUE(spec_of(with(Json::object())).tied_head);
  EXPECT_FALSE(spec_of(with({{"tie_embedding", false}})).tied_head);
  const auto width = [&](Json changes) {
    changes["layer_types"] = types;
    return (spec_of(with(changes)).layers[0].parameters - 4 * 64 * 64 - 3 * 64 - 2 * 64) / (3 * 64);
  };
  EXPECT_EQ(width({{"block_auto_adjust_ff_dim", false}}), 128);
  EXPECT_EQ(width({{"block_ff_dim", 1000}}), 768) << "666 rounded up to a multiple of 256";
  EXPECT_EQ(width({{"block_ff_dim", 1000}, {"block_ffn_dim_multiplier", 0.5}, {"block_multiple_of", 10}}), 340);
  expect_refusal(with({{"full_attn_idxs", {9}}}), "full_attn_idxs holds '9'");
  expect_refusal(with({{"layer_types", {"conv", "conv", "mamba", "conv"}}}), "'mamba'");
}

TEST(HybridConfig, falcon_has_a_cache_and_a_state_in_every_layer) {
  const auto with = [](Json changes) { return model("FalconH1ForCausalLM", changes); };
  const ModelSpec spec = spec_of(with({{"mamba_d_ssm", 48}, {"attn_rotary_emb", 8}}));
  ASSERT_EQ(spec.caches.size(), 4u);
  EXPECT_EQ(spec.caches[3].rotary_dim, 8);
  EXPECT_EQ(spec.layers[3].state_bytes, 3 * (48 + 2 * 256) * 2 + 48 * 256 * 4);
  EXPECT_EQ(spec_of(with({{"mamba_d_ssm", nullptr}})).layers[0].state_bytes, 3 * (128 + 2 * 256) * 2 + 128 * 256 * 4)
      << "null: mamba_expand times the hidden size";
  expect_refusal(with({{"mlp_multipliers", {1}}}), "mlp_multipliers is not a list of 2 numbers");
  expect_refusal(with({{"ssm_multipliers", {1, 1, 1, 1, "a"}}}), "ssm_multipliers");
  expect_refusal(with({{"attn_rotary_emb", 32}}), "attn_rotary_emb is 32, expected at most 16");
}

TEST(HybridConfig, olmos_delta_nets_take_their_sizes_from_attention) {
  const Json config = model("OlmoHybridForCausalLM", {{"num_hidden_layers", 5}});
  EXPECT_EQ(cache_layers(config), Layers({3}));
  EXPECT_EQ(cache_layers(model("OlmoHybridForCausalLM", {{"num_hidden_layers", 3}})), Layers({2}));
  const ModelSpec spec = spec_of(config);
  // 4 heads, keys 64 · 3/4 / 4 wide, values twice as much: windows of 3 of 192 channels, a matrix of 12 x 24 a head.
  EXPECT_EQ(spec.layers[0].state_bytes, 3 * 192 * 2 + 4 * 12 * 24 * 4);
  EXPECT_TRUE(spec.caches[0].normed_output);
  EXPECT_EQ(spec.caches[0].rotary_dim, 16);
  for (const Json& still : {Json{{"rope_theta", nullptr}}, Json{{"rope_parameters", {{"rope_theta", nullptr}}}}})
    EXPECT_EQ(spec_of(model("OlmoHybridForCausalLM", still)).caches[0].rotary_dim, 0);
  expect_refusal(model("OlmoHybridForCausalLM", {{"layer_types", {"mamba", "", "", ""}}}), "word in layer_types");
  expect_refusal(model("OlmoHybridForCausalLM", {{"linear_use_gate", false}}), "with gates only");
  expect_refusal(model("OlmoHybridForCausalLM", {{"linear_num_value_heads", 6}}), "is not a multiple");
}

TEST(HybridConfig, minimaxs_layers_are_words_or_take_turns) {
  const auto with = [](Json changes) { return model("MiniMaxForCausalLM", changes); };
  EXPECT_EQ(cache_layers(with(Json::object())), (Layers{0, 2}));
  const Json types = {"linear_attention", "linear_attention", "linear_attention", "full_attention"};
  EXPECT_EQ(kinds(with({{"layer_types", types}})),
            "lightning_attention lightning_attention lightning_attention attention ");
  EXPECT_EQ(spec_of(with({{"layer_types", types}})).layers[0].state_bytes, 4 * 16 * 16 * 4);
  expect_refusal(with({{"layer_types", {"full_attention"}}}), "layer_types has 1 entries, expected 4");
  expect_refusal(with({{"layer_types", {"full_attention", "conv", "conv", "conv"}}}), "'conv'");
}

// The reference framework's class rotates whole heads, vLLM's (up to 0.22) rotated the first rotary_dim channels.
TEST(HybridConfig, minimax_turns_whole_heads_or_is_refused) {
  const auto with = [](Json changes) { return model("MiniMaxForCausalLM", changes); };
  EXPECT_EQ(spec_of(with(Json::object())).caches[0].rotary_dim, 16);
  EXPECT_EQ(spec_of(with({{"rotary_dim", 16}})).caches[0].rotary_dim, 16);
  EXPECT_EQ(spec_of(with({{"rotary_dim", nullptr}})).caches[0].rotary_dim, 16);
  expect_refusal(with({{"rotary_dim", 8}}), "rotary_dim is 8 of head_dim 16");
  expect_refusal(with({{"head_dim", 128}, {"rotary_dim", 64}}), "rotary_dim is 64 of head_dim 128");
  expect_refusal(with({{"partial_rotary_factor", 0.5}}), "rotary_dim is 8 of head_dim 16");
  expect_refusal(with({{"rope_parameters", {{"rope_theta", 1e6}, {"partial_rotary_factor", 0.5}}}}),
                 "rotary_dim is 8 of head_dim 16");
}

}  // namespace
}  // namespace kvcal
