// Mixtures of experts as config.json describes them: which layers are sparse, what a layer counts for, what is refused.
#include <gtest/gtest.h>

#include "model/architecture.h"
#include "model/config_reading.h"

namespace kvcal {
namespace {

Json moe(const char* architecture, const Json& changes = Json::object()) {
  Json config = {{"architectures", {architecture}}, {"vocab_size", 100},        {"hidden_size", 64},
                 {"intermediate_size", 128},        {"num_hidden_layers", 4},   {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},        {"num_experts_per_tok", 2}, {"moe_intermediate_size", 32}};
  config.update(changes);
  return config;
}

std::string refusal(const Json& config) {
  try {
    parse_model(config);
    return "accepted";
  } catch (const Error& e) {
    return e.what();
  }
}

void expect_refusal(const Json& config, const std::string& part) {
  const std::string message = refusal(config);
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

std::vector<int64_t> windows_of(const Json& config) {
  std::vector<int64_t> windows;
  const auto model = parse_model(config);
  for (const KvLayout& c : model->spec().caches) windows.push_back(c.window);
  return windows;
}

std::vector<int64_t> parameters_of(const Json& config) {
  std::vector<int64_t> parameters;
  const auto model = parse_model(config);
  for (const LayerSpec& l : model->spec().layers) parameters.push_back(l.parameters);
  return parameters;
}

// By hand: q 64·64, k and v 64·32 each, o 64·64, two norms of 64, q and k norms of 16.
constexpr int64_t kAttention = 64 * (64 + 32 + 32 + 64), kNorms = 2 * 64 + 2 * 16;
constexpr int64_t kExperts = 8 * (3 * 64 * 32 + 64), kDense = 3 * 64 * 128;

TEST(MoeConfig, sparse_layers_follow_the_step_and_the_list_of_dense_ones) {
  const Json config = moe("Qwen3MoeForCausalLM", {{"num_experts", 8}, {"head_dim", 16}});
  const int64_t sparse = kAttention + kNorms + kExperts, dense = kAttention + kNorms + kDense;
  using P = std::vector<int64_t>;
  EXPECT_EQ(parameters_of(config), (P{sparse, sparse, sparse, sparse}));
  Json other = config;
  other["decoder_sparse_step"] = 2;
  EXPECT_EQ(parameters_of(other), (P{dense, sparse, dense, sparse}));
  other["mlp_only_layers"] = {3};
  EXPECT_EQ(parameters_of(other), (P{dense, sparse, dense, dense}));
  other["mlp_only_layers"] = {4};
  expect_refusal(other, "mlp_only_layers holds '4', expected layer numbers below 4");
}

// Room for a token: a layer with experts does not count the dense width, a dense one no experts.
TEST(MoeConfig, activations_are_those_of_the_layers_own_feed_forward) {
  const auto activations = [](const Json& config, size_t layer) {
    return parse_model(config)->spec().layers.at(layer).activations;
  };
  const Json config = moe("Qwen3MoeForCausalLM", {{"num_experts", 8}, {"mlp_only_layers", {0}}});
  Json wide = config;
  wide["intermediate_size"] = 128 + 1000;
  EXPECT_EQ(activations(wide, 0) - activations(config, 0), 3 * 1000);
  EXPECT_EQ(activations(wide, 1), activations(config, 1));
  Json many = config;
  many["num_experts_per_tok"] = 4;
  EXPECT_EQ(activations(many, 0), activations(config, 0));
  EXPECT_GE(activations(many, 1) - activations(config, 1), 2 * (2 * 64 + 3 * 32));
}

TEST(MoeConfig, windows_follow_each_familys_rule) {
  using W = std::vector<int64_t>;
  const Json slides = {{"num_experts", 8}, {"sliding_window", 16}, {"use_sliding_window", true}};
  EXPECT_EQ(windows_of(moe("Qwen3MoeForCausalLM", slides)), (W{16, 16, 16, 16}));
  EXPECT_EQ(windows_of(moe("Qwen3MoeForCausalLM", {{"num_experts", 8}, {"sliding_window", 16}})), (W{0, 0, 0, 0}));
  EXPECT_EQ(windows_of(moe("Qwen2MoeForCausalLM", slides)), (W{16, 0, 16, 0})) << "every second layer";
  Json fewer = moe("Qwen2MoeForCausalLM", slides);
  fewer["max_window_layers"] = 2;
  EXPECT_EQ(windows_of(fewer), (W{16, 0, 0, 0}));
  EXPECT_EQ(windows_of(moe("MixtralForCausalLM")), (W{0, 0, 0, 0})) << "no window by default";
  EXPECT_EQ(windows_of(moe("MixtralForCausalLM", {{"sliding_window", 16}})), (W{16, 16, 16, 16}));
}

TEST(MoeConfig, older_and_newer_names_of_the_number_of_experts) {
  const Json old_name = moe("Qwen3MoeForCausalLM", {{"num_experts", 8}});
  const Json new_name = moe("Qwen3MoeForCausalLM", {{"num_local_experts", 8}});
  EXPECT_EQ(parameters_of(old_name), parameters_of(new_name));
}

TEST(MoeConfig, gpt_oss_slides_by_layer_types_or_every_second_layer) {
  using W = std::vector<int64_t>;
  const Json config = moe("GptOssForCausalLM", {{"num_local_experts", 4}, {"head_dim", 16}});
  EXPECT_EQ(windows_of(config), (W{128, 0, 128, 0}));
  Json other = config;
  other["sliding_window"] = 32;
  other["layer_types"] = {"full_attention", "full_attention", "sliding_attention", "full_attention"};
  EXPECT_EQ(windows_of(other), (W{0, 0, 32, 0}));
  other["sliding_window"] = nullptr;
  expect_refusal(other, "layer 2 slides, but sliding_window is null");
}

// The class's default is yarn with factor 32: its magnitude is 0.1 ln 32 + 1.
TEST(MoeConfig, gpt_oss_has_learned_sinks_and_mixtral_has_none) {
  const auto has = [](const Json& config) { return parse_model(config)->spec().caches.at(0).learned_sinks; };
  EXPECT_TRUE(has(moe("GptOssForCausalLM", {{"num_local_experts", 4}})));
  EXPECT_FALSE(has(moe("MixtralForCausalLM", {{"num_local_experts", 4}})));
}

TEST(MoeConfig, gpt_oss_without_rope_keys_has_its_classs_yarn) {
  const Json config = moe("GptOssForCausalLM", {{"num_local_experts", 4}});
  EXPECT_NEAR(parse_model(config)->spec().caches.at(0).rope_magnitude, 1.34657359, 1e-6);
}

TEST(MoeConfig, minimax_turns_rotary_dim_channels) {
  const Json config = moe("MiniMaxM2ForCausalLM", {{"num_local_experts", 4}, {"head_dim", 32}});
  EXPECT_EQ(parse_model(config)->spec().caches.at(0).rotary_dim, 32);
  Json half = config;
  half["rotary_dim"] = 16;
  EXPECT_EQ(parse_model(half)->spec().caches.at(0).rotary_dim, 16);
}

TEST(MoeConfig, a_norm_behind_rope_leaves_no_bound_on_pairs) {
  Json config = moe("HunYuanMoEV1ForCausalLM", {{"num_experts", 8}, {"moe_topk", 2}});
  EXPECT_EQ(parse_model(config)->spec().caches.at(0).pair_bound, PairBound::None);
  config["use_qk_norm"] = false;
  EXPECT_EQ(parse_model(config)->spec().caches.at(0).pair_bound, PairBound::Neox);
}

TEST(MoeConfig, granites_attention_multiplier_is_the_softmax_scale) {
  const Json config = moe("GraniteMoeForCausalLM", {{"num_local_experts", 4}, {"attention_multiplier", 0.0078125}});
  EXPECT_EQ(parse_model(config)->spec().caches.at(0).softmax_scale, 0.0078125);
  expect_refusal(moe("GraniteMoeForCausalLM", {{"num_local_experts", 4}, {"logits_scaling", 0}}),
                 "logits_scaling is 0");
}

TEST(MoeConfig, the_first_layers_of_glm_and_the_outer_ones_of_ernie_are_dense) {
  const auto sparse = [](const Json& config) {
    std::vector<bool> more;  // than the dense width takes
    for (const int64_t n : parameters_of(config)) more.push_back(n > 64 * 1000);
    return more;
  };
  using S = std::vector<bool>;
  const Json glm = moe("Glm4MoeForCausalLM", {{"n_routed_experts", 8}, {"head_dim", 16}});
  EXPECT_EQ(sparse(glm), (S{false, true, true, true}));
  Json all = glm;
  all["first_k_dense_replace"] = 0;
  EXPECT_EQ(sparse(all), (S{true, true, true, true}));
  all["first_k_dense_replace"] = 9;
  EXPECT_EQ(sparse(all), (S{false, false, false, false}));
  const Json ernie = moe("Ernie4_5_MoeForCausalLM", {{"moe_num_experts", 8}, {"moe_k", 2}});
  EXPECT_EQ(sparse(ernie), (S{false, true, true, true}));
  Json some = ernie;
  some["moe_layer_end_index"] = 2;
  some["moe_layer_interval"] = 2;
  EXPECT_EQ(sparse(some), (S{false, true, false, false}));
}

TEST(MoeConfig, refusals_name_the_cause) {
  expect_refusal(moe("Qwen3MoeForCausalLM", {{"num_experts", 1}}), "num_experts_per_tok 2 does not fit num_experts 1");
  expect_refusal(moe("Qwen3MoeForCausalLM", {{"num_experts", -1}}), "the number of experts is -1");
  expect_refusal(moe("Qwen3MoeForCausalLM", {{"num_experts", 65536}, {"moe_intermediate_size", 2147483647}}),
                 "weights are too large");
  expect_refusal(moe("Qwen2MoeForCausalLM", {{"num_experts", 8}, {"hidden_act", "gelu"}}), "hidden_act is 'gelu'");
  expect_refusal(moe("Qwen3_5MoeForCausalLM", {{"num_experts", 0}}), "num_experts is 0");
  expect_refusal(moe("MixtralForCausalLM", {{"num_local_experts", 0}}), "num_local_experts is 0");
  expect_refusal(moe("Glm4MoeForCausalLM", {{"n_routed_experts", 8}, {"n_group", 3}}), "n_group 3 and topk_group 1");
  expect_refusal(moe("Glm4MoeForCausalLM", {{"n_routed_experts", 8}, {"n_group", 4}, {"num_experts_per_tok", 3}}),
                 "do not fit 8 experts, 3 of them active");
  expect_refusal(moe("GptOssForCausalLM", {{"num_local_experts", 4}, {"swiglu_limit", 10}}), "swiglu_limit");
  const Json hunyuan = moe("HunYuanMoEV1ForCausalLM", {{"num_experts", 8}, {"moe_topk", {2, 2, 2, 2}}});
  EXPECT_EQ(refusal(hunyuan), "accepted");
  Json other = hunyuan;
  other["moe_topk"] = {2, 2, 4, 2};
  expect_refusal(other, "moe_topk differs from layer to layer");
  other["moe_topk"] = {2, 2};
  expect_refusal(other, "moe_topk has 2 entries, expected 4");
  other["moe_topk"] = 1;
  expect_refusal(other, "moe_topk is 1");
  other = hunyuan;
  other["use_cla"] = true;
  expect_refusal(other, "use_cla is not supported");
  expect_refusal(moe("OlmoeForCausalLM", {{"clip_qkv", -1.0}}), "clip_qkv is -1.0");
  expect_refusal(moe("MiniMaxM2ForCausalLM", {{"num_local_experts", 4}, {"attn_type_list", {1, 0}}}),
                 "attn_type_list holds 0");
  expect_refusal(moe("MiniMaxM2ForCausalLM", {{"num_local_experts", 4}, {"qk_norm_type", "per_head"}}),
                 "qk_norm_type is 'per_head'");
  expect_refusal(moe("MiniMaxM2ForCausalLM", {{"num_local_experts", 4}, {"scoring_func", "softmax"}}), "scoring_func");
  expect_refusal(moe("Ernie4_5_MoeForCausalLM", {{"moe_num_experts", 4}}), "moe_k 6 does not fit num_experts 4");
  expect_refusal(moe("Ernie4_5_MoeForCausalLM", {{"use_bias", true}}), "use_bias is not supported");
  expect_refusal(moe("AfmoeForCausalLM", {{"score_func", "softmax"}}), "score_func is 'softmax'");
  expect_refusal(moe("AfmoeForCausalLM", {{"route_norm", false}}), "route_norm is false");
  expect_refusal(moe("AfmoeForCausalLM", {{"n_group", 2}}), "n_group is not 1");
}

Json ling(const Json& more = Json::object()) {
  Json config = moe("BailingMoeV2ForCausalLM", {{"num_experts", 8}, {"num_shared_experts", 1}});
  config.update(more);
  return config;
}

TEST(BailingConfig, names_are_its_own) {
  const ModelSpec spec = parse_model(ling({{"first_k_dense_replace", 1}}))->spec();
  EXPECT_EQ(spec.embedding, "word_embeddings.weight");
  EXPECT_EQ(spec.caches[1].name, "layers.1.attention");
  EXPECT_EQ(spec.layers[1].attention.module, "layers.1.attention.");
  EXPECT_EQ(spec.layers[1].attention.query, "query_key_value");
  EXPECT_TRUE(spec.layers[1].attention.fused);
  EXPECT_EQ(spec.layers[1].attention.output, "dense");
  EXPECT_EQ(spec.layers[0].parameters, kAttention + 2 * 64 + kDense);
  EXPECT_EQ(spec.layers[1].parameters, kAttention + 2 * 64 + kExperts + 3 * 64 * 32);
}

TEST(BailingConfig, refusals) {
  EXPECT_EQ(refusal(ling({{"score_function", "softmax"}})), "accepted");
  EXPECT_EQ(refusal(ling({{"moe_router_enable_expert_bias", true}, {"rotary_dim", 8}, {"partial_rotary_factor", 0.5}})),
            "accepted");
  expect_refusal(ling({{"score_function", "sigmoid"}}), "moe_router_enable_expert_bias false");
  expect_refusal(ling({{"rotary_dim", 8}}), "rotary_dim is 8, but partial_rotary_factor rotates 16");
  expect_refusal(ling({{"use_bias", true}}), "use_bias is true");
  expect_refusal(ling({{"norm_head", true}}), "norm_head is true");
  expect_refusal(ling({{"use_sliding_window", true}, {"sliding_window", 4}}), "use_sliding_window is true");
  expect_refusal(ling({{"multi_gate", true}}), "multi_gate is true");
  expect_refusal(ling({{"use_qk_norm", true}, {"use_rmsnorm", false}}), "use_rmsnorm is false");
  Json no_experts = ling();
  no_experts.erase("num_experts");
  expect_refusal(no_experts, "num_experts");
}

Json step(const Json& more = Json::object()) {
  Json config = {{"architectures", {"Step3p5ForCausalLM"}},
                 {"vocab_size", 96},
                 {"hidden_size", 64},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 4},
                 {"num_attention_groups", 2},
                 {"head_dim", 16},
                 {"num_nextn_predict_layers", 1},
                 {"layer_types", {"full_attention", "sliding_attention", "full_attention"}},
                 {"sliding_window", 20},
                 {"moe_layers_enum", "1"},
                 {"attention_other_setting", {{"attention_type", "sliding_attention"}, {"num_attention_heads", 6}}}};
  config.update(more);
  return config;
}

TEST(StepConfig, layers_differ_in_heads_and_lists_go_on_with_draft_layers) {
  const ModelSpec spec = parse_model(step({{"rope_theta", {5e6, 1e4, 1e4}}}))->spec();
  ASSERT_EQ(spec.caches.size(), 2U);
  EXPECT_EQ(spec.caches[0].n_heads, 4);
  EXPECT_EQ(spec.caches[1].n_heads, 6);
  EXPECT_EQ(spec.caches[1].window, 20);
  EXPECT_GT(spec.layers[1].parameters, int64_t{288} * 3 * 64 * 1280);  // experts
}

TEST(StepConfig, refusals) {
  Json no_experts = step();
  no_experts.erase("moe_layers_enum");
  expect_refusal(no_experts, "neither mlp_layer_types nor moe_layers_enum");
  expect_refusal(step({{"moe_layers_enum", "1,x"}}), "moe_layers_enum is not a list of layers");
  expect_refusal(step({{"moe_layers_enum", {-1}}}), "moe_layers_enum is not a list of layers");
  expect_refusal(step({{"swiglu_limits", {0, 5, 0}}}), "experts are read with a limit of 7 only");
  expect_refusal(step({{"swiglu_limits_shared", {0.1, 0, 0}}}), "expected 1 or more");
  expect_refusal(step({{"swiglu_limits_shared", {0, 0, 0, 0}}}), "neither a number nor a list of 2");
  expect_refusal(step({{"rope_theta", {"a", 1}}}), "rope_theta has no number for layer 0");
  expect_refusal(step({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2}}},
                       {"yarn_only_types", {"full_attention", "sliding_attention"}}}),
                 "yarn_only_types");
  expect_refusal(step({{"use_rope_layers", {true, false, true}}}), "use_rope_layers");
  expect_refusal(step({{"use_head_wise_attn_gate", false}}), "use_head_wise_attn_gate is false");
  expect_refusal(step({{"gating", "per-element"}}), "a gate for each head");
  expect_refusal(step({{"moe_router_activation", "softmax"}}), "sigmoid scores only");
  expect_refusal(step({{"query_pre_attn_scalar", 32}}), "query_pre_attn_scalar");
  expect_refusal(step({{"attention_other_setting", {{"num_attention_heads", 5}}}}), "no multiple of its 2");
  expect_refusal(step({{"attention_other_setting", {{"head_dim", 32}}}}), "another head_dim");
  expect_refusal(step({{"attention_other_setting", {{"attention_type", "full_attention"}}}}), "'full_attention'");
  expect_refusal(step({{"per_layer_config", {{"1", {{"head_dim", 8}}}}}}), "unknown key 'head_dim'");
}

Json mimo(const Json& more = Json::object()) {
  Json config = {{"architectures", {"MiMoV2FlashForCausalLM"}},
                 {"vocab_size", 96},
                 {"hidden_size", 64},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 8},
                 {"num_key_value_heads", 2},
                 {"hybrid_layer_pattern", {0, 1}},
                 {"moe_layer_freq", {0, 1}},
                 {"sliding_window", 128},
                 {"sliding_window_size", 128},
                 {"n_shared_experts", nullptr},
                 {"routed_scaling_factor", nullptr}};
  config.update(more);
  return config;
}

TEST(MiMoConfig, layers_with_a_window_have_heads_and_sinks_of_their_own) {
  const ModelSpec spec = parse_model(mimo({{"swa_head_dim", 96}, {"swa_num_attention_heads", 4}}))->spec();
  const KvLayout &full = spec.caches.at(0), &sliding = spec.caches.at(1);
  EXPECT_EQ(full.head_dim_k, 192);
  EXPECT_EQ(full.head_dim_v, 128);
  EXPECT_EQ(full.rotary_dim, 64);
  EXPECT_EQ(full.window, 0);
  EXPECT_FALSE(full.learned_sinks);
  EXPECT_EQ(sliding.n_heads, 4);
  EXPECT_EQ(sliding.n_kv_heads, 4);
  EXPECT_EQ(sliding.head_dim_k, 96);
  EXPECT_EQ(sliding.head_dim_v, 128);
  EXPECT_EQ(sliding.rotary_dim, 32);
  EXPECT_EQ(sliding.window, 129);  // the query's own key, which sliding_window_size leaves out
  EXPECT_TRUE(sliding.learned_sinks);
  EXPECT_GT(spec.layers[1].parameters, int64_t{256} * 3 * 64 * 2048);  // experts
  EXPECT_FALSE(parse_model(mimo({{"add_swa_attention_sink_bias", false}}))->spec().caches.at(1).learned_sinks);
}

TEST(MiMoConfig, one_table_of_rope_for_all_layers_says_the_published_keys_again) {
  const Json table = {{"rope_theta", 5e6}, {"partial_rotary_factor", 0.5}, {"rope_type", "default"}};
  const ModelSpec spec = parse_model(mimo({{"swa_rope_theta", 1e4}, {"rope_parameters", table}}))->spec();
  EXPECT_EQ(spec.caches.at(0).rotary_dim, 96);
  EXPECT_EQ(spec.caches.at(1).rotary_dim, 96);
  expect_refusal(mimo({{"rope_parameters", {{"rope_type", "yarn"}, {"rope_theta", 5e6}, {"factor", 2}}}}),
                 "rope_type that is not default");
}

TEST(MiMoConfig, refusals) {
  expect_refusal(mimo({{"hybrid_layer_pattern", {0, 2}}}), "hybrid_layer_pattern holds 2, expected 0 or 1");
  expect_refusal(mimo({{"hybrid_layer_pattern", {0}}}), "layer_types has 1 entries");
  expect_refusal(mimo({{"layer_types", {"sliding_attention", "full_attention"}}}), "say different things of a layer");
  expect_refusal(mimo({{"moe_layer_freq", 1}}), "moe_layer_freq is not a list of zeros and ones");
  expect_refusal(mimo({{"layernorm_epsilon", 1e-5}, {"rms_norm_eps", 1e-6}}), "two names of one thing");
  expect_refusal(mimo({{"attention_projection_layout", "fused_qkv"}}), "projections of their own only");
  expect_refusal(mimo({{"add_full_attention_sink_bias", true}}), "add_full_attention_sink_bias");
  expect_refusal(mimo({{"swa_num_attention_heads", 6}}), "a multiple of their key-value heads, 4");
  expect_refusal(mimo({{"scoring_func", "softmax"}}), "sigmoid scores only");
  expect_refusal(mimo({{"topk_method", "greedy"}}), "'noaux_tc' only");
  expect_refusal(mimo({{"n_shared_experts", 1}}), "shared experts are not known");
  expect_refusal(mimo({{"routed_scaling_factor", 2.5}}), "routed_scaling_factor is not 1");
  expect_refusal(mimo({{"architectures", {"MiMoV2ForCausalLM"}}}), "one weight, in slices");
  expect_refusal(mimo({{"rope_scaling", {{"type", "yarn"}, {"factor", 2}}}}), "rope_scaling is given");
}

TEST(AfmoeConfig, every_fourth_layer_is_full_and_the_first_dense) {
  EXPECT_EQ(windows_of(moe("AfmoeForCausalLM")), (std::vector<int64_t>{1024, 1024, 1024, 0}));
  const Json few = moe("AfmoeForCausalLM", {{"num_experts", 4}, {"num_shared_experts", 1}, {"num_dense_layers", 1}});
  const std::vector<int64_t> parameters = parameters_of(few);
  EXPECT_EQ(parameters[1] - parameters[0], (4 + 1) * 3 * 64 * 32 + 4 * 64 - 3 * 64 * 128);
}

TEST(MoeConfig, indexers_of_minimax_m3_have_no_values) {
  const auto with = [](const Json& changes) {
    Json sparse = {{"sparse_num_index_heads", 2}, {"sparse_index_dim", 8},   {"sparse_block_size", 8},
                   {"sparse_topk_blocks", 3},     {"sparse_local_block", 1}, {"sparse_attention_freq", {0, 1, 1, 1}}};
    sparse.update(changes);
    return moe("MiniMaxM3SparseForCausalLM", {{"head_dim", 16},
                                              {"rotary_dim", 8},
                                              {"num_local_experts", 6},
                                              {"shared_intermediate_size", 24},
                                              {"dense_intermediate_size", 56},
                                              {"sparse_attention_config", sparse}});
  };
  EXPECT_EQ(refusal(with({{"sparse_disable_index_value", {0, 1, 1, 1}}})), "accepted");
  expect_refusal(with({{"sparse_disable_index_value", {0, 1, 0, 1}}}), "sparse_disable_index_value is 0 for layer 2");
  expect_refusal(with({{"sparse_attention_freq", {0, 1, 2, 1}}}), "sparse_attention_freq holds 2, expected 0 and 1");
  expect_refusal(with({{"use_sparse_attention", false}}), "use_sparse_attention is false");
}

}  // namespace
}  // namespace kvcal
