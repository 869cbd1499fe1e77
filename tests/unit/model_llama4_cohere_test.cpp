// Configs of Llama 4, Command-R, Cohere2 and Starcoder2: layer kinds, defaults of missing keys, refusals.
#include <gtest/gtest.h>

#include "harness/message_of.h"
#include "model/architecture.h"

namespace kvcal {
namespace {

Json some(const char* architecture, Json changes = Json::object()) {
  Json config = {{"architectures", {architecture}}, {"vocab_size", 100},      {"hidden_size", 64},
                 {"intermediate_size", 128},        {"num_hidden_layers", 5}, {"num_attention_heads", 4},
                 {"num_key_value_heads", 2}};
  config.update(changes);
  return config;
}

/// The caches by layer: whether RoPE rotates keys.
std::vector<bool> turning(const Json& config) {
  std::vector<bool> t;
  const auto model = parse_model(config);
  for (const KvLayout& c : model->spec().caches) {
    t.push_back(c.rotary_dim > 0);
    EXPECT_EQ(c.pair_bound, c.rotary_dim > 0 ? PairBound::Gptj : PairBound::None);
  }
  return t;
}

void expect_refusal(const Json& config, const std::string& part) {
  const std::string message = message_of([&] { parse_model(config); });
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(Llama4Config, an_empty_list_of_layers_without_rope_is_the_default_and_1_means_rope) {
  using T = std::vector<bool>;
  EXPECT_EQ(turning(some("Llama4ForCausalLM")), (T{true, true, true, false, true}));
  EXPECT_EQ(turning(some("Llama4ForCausalLM", {{"no_rope_layers", Json::array()}})),
            (T{true, true, true, false, true}));
  EXPECT_EQ(turning(some("Llama4ForCausalLM", {{"no_rope_layers", {0, 1, 0, 1, 1}}})),
            (T{false, true, false, true, true}));
  EXPECT_EQ(turning(some("Llama4ForCausalLM", {{"no_rope_layer_interval", 2}})), (T{true, false, true, false, true}));
}

TEST(Llama4Config, experts_are_where_the_config_says) {
  const auto parameters = [](Json changes) {
    changes.update({{"intermediate_size_mlp", 128}, {"num_local_experts", 4}});
    std::vector<int64_t> n;
    const auto model = parse_model(some("Llama4ForCausalLM", changes));
    for (const LayerSpec& l : model->spec().layers) n.push_back(l.parameters);
    return n;
  };
  const std::vector<int64_t> all = parameters({}), second = parameters({{"interleave_moe_layer_step", 2}}),
                             listed = parameters({{"moe_layers", {0, 4}}});
  const int64_t experts = all[0], dense = second[0];
  EXPECT_EQ(experts - dense, 4 * 3 * 64 * 128 + 4 * 64);  // four experts and the router beside what a dense layer has
  EXPECT_EQ(second, (std::vector<int64_t>{dense, experts, dense, experts, dense}));
  EXPECT_EQ(listed, (std::vector<int64_t>{experts, dense, dense, dense, experts}));
}

TEST(Llama4Config, the_head_is_tied_by_the_text_config_alone) {
  Json wrapped = {{"architectures", {"Llama4ForConditionalGeneration"}}, {"text_config", some("Llama4ForCausalLM")}};
  wrapped["tie_word_embeddings"] = true;
  EXPECT_FALSE(parse_model(wrapped)->spec().tied_head);
  wrapped["text_config"]["tie_word_embeddings"] = true;
  wrapped["tie_word_embeddings"] = false;
  EXPECT_TRUE(parse_model(wrapped)->spec().tied_head);
}

TEST(Llama4Config, refusals_name_the_cause) {
  expect_refusal(some("Llama4ForCausalLM", {{"num_experts_per_tok", 2}}), "num_experts_per_tok is 2");
  expect_refusal(some("Llama4ForCausalLM", {{"no_rope_layers", {1, 0}}}), "no_rope_layers has 2 entries, expected 5");
  expect_refusal(some("Llama4ForCausalLM", {{"no_rope_layers", {1, 0, 2, 1, 1}}}), "neither 0 nor 1");
  expect_refusal(some("Llama4ForCausalLM", {{"moe_layers", {5}}}), "moe_layers holds '5'");
  expect_refusal(some("Llama4ForCausalLM", {{"floor_scale", 0}}), "floor_scale");
}

TEST(CohereConfig, sliding_layers_turn_and_full_ones_do_not) {
  using T = std::vector<bool>;
  EXPECT_EQ(turning(some("CohereForCausalLM")), T(5, true));
  EXPECT_EQ(turning(some("Cohere2ForCausalLM")), (T{true, true, true, false, true}));
  EXPECT_EQ(turning(some("Cohere2ForCausalLM", {{"sliding_window_pattern", 2}})), (T{true, false, true, false, true}));
  expect_refusal(some("Cohere2ForCausalLM", {{"sliding_window", nullptr}}), "sliding_window is null");
  expect_refusal(some("CohereForCausalLM", {{"logit_scale", 0}}), "logit_scale is not a positive number");
  expect_refusal(some("CohereForCausalLM", {{"layer_norm_eps", -1}}), "layer_norm_eps is not a positive number");
}

TEST(Cohere2MoeConfig, layers_by_patterns_or_lists) {
  using T = std::vector<bool>;
  const auto moe = [](Json changes = Json::object()) {
    Json defaults = {{"num_experts", 4}, {"num_shared_experts", 1}};
    defaults.update(changes);
    return some("Cohere2MoeForCausalLM", defaults);
  };
  EXPECT_EQ(turning(moe()), (T{true, true, true, false, true}));
  EXPECT_EQ(turning(moe({{"first_k_dense_replace", 2}, {"sliding_window_pattern", 2}})),
            (T{true, true, true, false, true}))
      << "two dense layers without a window, which turn all the same";
  EXPECT_EQ(turning(moe({{"first_k_dense_replace", 2}, {"prefix_dense_sliding_window_pattern", 2}})),
            (T{true, false, true, true, true}));
  const Json lists = {
      {"layer_types", {"full_attention", "full_attention", "sliding_attention", "full_attention", "full_attention"}},
      {"mlp_layer_types", {"dense", "sparse", "sparse", "dense", "sparse"}}};
  EXPECT_EQ(turning(moe(lists)), (T{true, false, true, true, false}));
  const auto model = parse_model(moe(lists));
  const std::vector<LayerSpec>& layers = model->spec().layers;
  EXPECT_EQ(layers[1].parameters - layers[0].parameters, 4 * 3 * 64 * 128 + 4 * 64);  // one expert of five is shared
  expect_refusal(moe({{"expert_selection_fn", "sparsemax"}}), "expected softmax or sigmoid");
  expect_refusal(moe({{"shared_expert_combination_strategy", "max"}}), "expected average or sum");
  expect_refusal(moe({{"sliding_window", nullptr}}), "sliding_window is null");
  expect_refusal(moe({{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}}), "rope_scaling is given");
  expect_refusal(moe({{"rms_norm_eps", -1}}), "rms_norm_eps is not a positive number");
  expect_refusal(moe({{"logit_scale", 0}}), "logit_scale is not a positive number");
  expect_refusal(moe({{"num_experts_per_tok", 5}}), "num_experts_per_tok");
}

TEST(Starcoder2Config, activation_and_window) {
  const auto model = parse_model(some("Starcoder2ForCausalLM", {{"sliding_window", 7}}));
  for (const KvLayout& c : model->spec().caches) EXPECT_EQ(c.window, 7);
  expect_refusal(some("Starcoder2ForCausalLM", {{"hidden_act", "relu"}}), "hidden_act is 'relu'");
}

}  // namespace
}  // namespace kvcal
