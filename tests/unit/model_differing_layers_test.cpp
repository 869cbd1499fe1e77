// Configs that say of each layer what it is: which slide, which rotate, how large they are, and which are refused.
#include <gtest/gtest.h>

#include "harness/message_of.h"
#include "model/architecture.h"

namespace kvcal {
namespace {

struct Kinds {
  std::vector<int64_t> windows;
  std::vector<bool> turning;
  bool operator==(const Kinds&) const = default;
};

Kinds kinds(const Json& config) {
  const auto model = parse_model(config);
  Kinds found;
  for (const KvLayout& cache : model->spec().caches) {
    found.windows.push_back(cache.window);
    found.turning.push_back(cache.rotary_dim > 0);
  }
  return found;
}

void expect_refusal(const Json& config, const std::string& part) {
  const std::string message = message_of([&] { parse_model(config); });
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

Json changed(Json config, const Json& changes) {
  config.update(changes);
  return config;
}

Json muse(const Json& changes = Json::object()) {
  const Json text = {{"vocab_size", 100},        {"hidden_size", 64},      {"intermediate_size", 128},
                     {"num_attention_heads", 4}, {"num_hidden_layers", 6}, {"head_dim", 16},
                     {"sliding_window", 9}};
  return {{"architectures", {"MuseGlimmerForConditionalGeneration"}},
          {"vision_config", Json::object()},
          {"image_token_id", 98},
          {"video_token_id", 99},
          {"text_config", changed(text, changes)}};
}

TEST(MuseGlimmerConfig, every_fourth_layer_from_the_last_one_backward_sees_all_and_does_not_rotate) {
  EXPECT_EQ(kinds(muse()), (Kinds{{9, 0, 9, 9, 9, 0}, {true, false, true, true, true, false}}));
  EXPECT_EQ(kinds(muse({{"sliding_window", nullptr}})).windows, std::vector<int64_t>(6, 0));
  EXPECT_EQ(parse_model(muse())->spec().placeholders, (std::vector<int32_t>{98, 99}));
}

TEST(MuseGlimmerConfig, lists_say_which_layers_slide_and_which_rotate) {
  const Json lists = {{"num_hidden_layers", 3},
                      {"layer_types", {"full_attention", "sliding_attention", "full_attention"}},
                      {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 5e5}}},
                      {"layer_rope_theta", {5e5, 0, 500000}}};
  EXPECT_EQ(kinds(muse(lists)), (Kinds{{0, 9, 0}, {true, false, true}}));
}

TEST(MuseGlimmerConfig, refusals_name_the_cause) {
  expect_refusal(muse({{"layer_rope_theta", {0, 0, 0, 0, 0, 5e5}}}), "layer_rope_theta holds 500000.0 for layer 5");
  expect_refusal(muse({{"layer_rope_theta", {0, 1e4}}}), "layer_rope_theta is not a list of 6 numbers");
  expect_refusal(muse({{"hidden_activation", "gelu"}}), "hidden_activation is 'gelu'");
  expect_refusal(muse({{"final_logit_softcapping", -1}}), "final_logit_softcapping is not a positive number");
  expect_refusal(muse({{"post_norm_eps", 1}}), "post_norm_eps is 1");
  expect_refusal({{"architectures", {"MuseGlimmerForCausalLM"}}}, "MuseGlimmerForConditionalGeneration is supported");
}

Json puzzle(const Json& blocks) {
  return {{"architectures", {"NemotronHPuzzleForCausalLM"}},
          {"vocab_size", 100},
          {"hidden_size", 64},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 16},
          {"block_configs", blocks}};
}

const Json kMoeBlock = {{"block_type", "moe"},        {"n_routed_experts", 6},
                        {"num_experts_per_tok", 2},   {"moe_intermediate_size", 8},
                        {"moe_latent_size", nullptr}, {"moe_shared_expert_intermediate_size", 16}};

TEST(NemotronHPuzzleConfig, blocks_say_what_each_layer_is) {
  const Json larger = changed(kMoeBlock, {{"n_routed_experts", 7}});
  const Json attention = {{"block_type", "attention"}};
  const auto model = parse_model(puzzle({{{"block_type", "mamba"}},
                                         attention,
                                         changed(attention, {{"sliding_window", 9}}),
                                         {{"block_type", "mlp"}, {"intermediate_size", 10}},
                                         {{"block_type", "mlp"}, {"intermediate_size", 11}},
                                         kMoeBlock,
                                         larger}));
  const ModelSpec& spec = model->spec();
  ASSERT_EQ(spec.layers.size(), 7u);
  EXPECT_EQ(spec.layers[0].kind, LayerKind::Mamba2);
  ASSERT_EQ(spec.caches.size(), 2u);
  EXPECT_EQ(spec.caches[0].window, 0);
  EXPECT_EQ(spec.caches[1].window, 9);
  EXPECT_EQ(spec.layers[4].parameters - spec.layers[3].parameters, 2 * 64);
  EXPECT_EQ(spec.layers[6].parameters - spec.layers[5].parameters, 2 * 64 * 8 + 64)
      << "an expert, and its router's row";
}

TEST(NemotronHPuzzleConfig, refusals_name_the_cause) {
  const auto refused = [](const Json& block, const std::string& part) {
    expect_refusal(puzzle(Json::array({block})), part);
  };
  refused({{"block_type", "mamba"}, {"ssm_state_size", 96}},
          "unknown key in block_configs of a layer of type mamba 'ssm_state_size'");
  refused({{"block_type", "attention"}, {"q_indexer_dim", 8}}, "'q_indexer_dim'");
  refused({{"block_type", "conv"}}, "unknown block_type 'conv'");
  refused({{"block_type", "mlp"}}, "block_configs[0] has no intermediate_size");
  refused({{"block_type", "moe"}, {"n_routed_experts", 6}}, "block_configs[0] has no num_experts_per_tok");
  expect_refusal(changed(puzzle(Json::array({kMoeBlock})), {{"moe_latent_size", 8}}),
                 "block_configs[0] has null for moe_latent_size");
  refused("moe", "block_configs[0] is not an object");
  expect_refusal(
      changed(puzzle(Json::array({kMoeBlock})), {{"hybrid_override_pattern", "M"}, {"moe_latent_size", nullptr}}),
      "hybrid_override_pattern does not name the kinds of layers");
  expect_refusal(changed(puzzle(Json::array()), {{"block_configs", nullptr}}), "block_configs is not a list of layers");
}

Json deci(const Json& blocks, const Json& changes = Json::object()) {
  return changed({{"architectures", {"DeciLMForCausalLM"}},
                  {"vocab_size", 100},
                  {"hidden_size", 64},
                  {"intermediate_size", nullptr},
                  {"num_attention_heads", 4},
                  {"num_key_value_heads", nullptr},
                  {"num_hidden_layers", blocks.size()},
                  {"block_configs", blocks}},
                 changes);
}

Json deci_block(const Json& attention, const Json& ffn) { return {{"attention", attention}, {"ffn", ffn}}; }

const Json kNothing = {{"no_op", true}}, kPairs = {{"n_heads_in_group", 2}, {"sparsify", nullptr}},
           kFfn = {{"ffn_mult", 2.625}, {"replace_with_linear", false}};

TEST(DeciLmConfig, blocks_say_which_branches_a_layer_has) {
  const auto model =
      parse_model(deci({deci_block(kPairs, kFfn), deci_block(kNothing, {{"intermediate_size", 10}}),
                        deci_block({{"n_heads_in_group", 4}}, kNothing), deci_block(kNothing, kNothing)}));
  const ModelSpec& spec = model->spec();
  ASSERT_EQ(spec.layers.size(), 4u);
  ASSERT_EQ(spec.caches.size(), 2u);
  EXPECT_EQ(spec.caches[0].n_kv_heads, 2);
  EXPECT_EQ(spec.caches[1].n_kv_heads, 1);
  EXPECT_EQ(spec.caches[1].layer, 2);
  EXPECT_EQ(spec.layers[1].kind, LayerKind::FeedForward);
  EXPECT_EQ(spec.layers[0].parameters, 64 * (2 * 64 + 2 * 32) + 64 + 3 * 64 * 256 + 64) << "2.625 makes 112, up to 256";
  EXPECT_EQ(spec.layers[1].parameters, 3 * 64 * 10 + 64);
  EXPECT_EQ(spec.layers[2].parameters, 64 * (2 * 64 + 2 * 16) + 64);
  EXPECT_EQ(spec.layers[3].parameters, 0);
}

TEST(DeciLmConfig, refusals_name_the_cause) {
  const auto refused = [](const Json& block, const std::string& part) {
    expect_refusal(deci(Json::array({block})), part);
  };
  refused(deci_block({{"replace_with_linear", true}}, kFfn),
          "block_configs[0].attention.replace_with_linear is true, which servers do not read");
  refused(deci_block({{"n_heads_in_group", 2}, {"window_length", 512}}, kFfn), "window_length is 512");
  refused(deci_block({{"n_heads_in_group", 3}}, kFfn), "n_heads_in_group is 3, expected a divisor of 4");
  refused(deci_block(kPairs, {{"ffn_mult", 2}, {"hidden_act", "gelu"}}), "ffn.hidden_act is 'gelu'");
  refused(deci_block(kPairs, {{"ffn_mult", 0}}), "ffn_mult is 0.0, expected");
  refused(deci_block(kNothing, kFfn), "no layer in block_configs attends");
  refused({{"attention", kPairs}}, "block_configs[0] has no ffn that is an object");
  expect_refusal(deci({deci_block(kPairs, kFfn)}, {{"num_hidden_layers", 2}}), "is not a list of 2 layers");
}

Json cwm(const Json& changes = Json::object()) {
  return changed({{"architectures", {"CwmForCausalLM"}}, {"num_hidden_layers", 6}, {"sliding_window", 9}}, changes);
}

TEST(CwmConfig, every_fourth_layer_from_the_first_one_on_sees_all) {
  EXPECT_EQ(kinds(cwm()).windows, (std::vector<int64_t>{0, 9, 9, 9, 0, 9}));
  EXPECT_EQ(kinds(cwm({{"sliding_window", nullptr}})).windows, std::vector<int64_t>(6, 0));
}

TEST(CwmConfig, refusals_name_the_cause) {
  expect_refusal(cwm({{"rope_theta", 5e5}}), "rope_theta is 500000.0 and there is no rope_scaling");
  expect_refusal(cwm({{"attention_bias", true}}), "attention_bias is true");
}

}  // namespace
}  // namespace kvcal
