// Configs of MLA models: layers, rows, softmax scale and rotation; what is refused, and how.
#include <gtest/gtest.h>

#include <cmath>

#include "model/architecture.h"
#include "model/rope.h"

namespace kvcal {
namespace {

Json deepseek(const char* cls, Json changes = Json::object()) {
  Json config = {{"architectures", {cls}},
                 {"vocab_size", 100},
                 {"hidden_size", 64},
                 {"intermediate_size", 128},
                 {"moe_intermediate_size", 32},
                 {"num_hidden_layers", 4},
                 {"num_attention_heads", 4},
                 {"kv_lora_rank", 48},
                 {"q_lora_rank", nullptr},
                 {"qk_nope_head_dim", 12},
                 {"qk_rope_head_dim", 8},
                 {"v_head_dim", 20},
                 {"n_routed_experts", 16},
                 {"num_experts_per_tok", 2},
                 {"n_shared_experts", 1},
                 {"n_group", 1},
                 {"topk_group", 1}};
  config.update(changes);
  return config;
}

Json v2(Json changes = Json::object()) { return deepseek("DeepseekV2ForCausalLM", std::move(changes)); }
Json v3(Json changes = Json::object()) { return deepseek("DeepseekV3ForCausalLM", std::move(changes)); }

std::string refusal(const Json& config) {
  try {
    parse_model(config);
    return "accepted";
  } catch (const Error& e) {
    return e.what();
  }
}

void expect_refused(const Json& config, const std::string& why) {
  const std::string message = refusal(config);
  EXPECT_NE(message.find(why), std::string::npos) << message;
}

KvLayout first_cache(const Json& config) { return parse_model(config)->spec().caches.at(0); }

TEST(LatentConfig, a_row_for_all_heads) {
  const ModelSpec spec = parse_model(v2({{"num_key_value_heads", 3}, {"head_dim", 99}}))->spec();
  ASSERT_EQ(spec.caches.size(), 4U);
  const KvLayout& c = spec.caches[2];
  EXPECT_TRUE(c.is_mla());
  EXPECT_EQ(c.name, "layers.2.self_attn");
  EXPECT_EQ(c.n_heads, 4);
  EXPECT_EQ(c.n_kv_heads, 1);
  EXPECT_EQ(c.head_dim_k, 56);
  EXPECT_EQ(c.head_dim_v, 48);
  EXPECT_EQ(c.latent_dim, 48);
  EXPECT_EQ(c.rotary_dim, 8);
  EXPECT_EQ(c.pair_bound, PairBound::Gptj);
  EXPECT_DOUBLE_EQ(c.softmax_scale, 1 / std::sqrt(20.0));
  EXPECT_EQ(kv_bytes_per_token(spec, 2), 4 * 56 * 2);
  EXPECT_EQ(kv_bytes_per_token(spec, 1), 4 * 56);
}

// DeepSeek-V2.5's published rope: 0.1 ln 40 + 1 = 1.3688879 in the softmax scale, and no magnitude.
TEST(LatentConfig, yarn_goes_into_the_softmax_scale) {
  const Json yarn = {{"type", "yarn"},
                     {"factor", 40},
                     {"beta_fast", 32},
                     {"beta_slow", 1},
                     {"mscale", 1.0},
                     {"mscale_all_dim", 1.0},
                     {"original_max_position_embeddings", 4096}};
  KvLayout c = first_cache(v2({{"rope_scaling", yarn}, {"max_position_embeddings", 163840}}));
  EXPECT_NEAR(c.softmax_scale, 1.3688879454 * 1.3688879454 / std::sqrt(20.0), 1e-9);
  EXPECT_DOUBLE_EQ(c.rope_magnitude, 1);
  Json half = yarn;
  half["mscale_all_dim"] = 0.5;  // 0.05 ln 40 + 1 = 1.1844440
  c = first_cache(v2({{"rope_scaling", half}}));
  EXPECT_NEAR(c.softmax_scale, 1.1844439727 * 1.1844439727 / std::sqrt(20.0), 1e-9);
  EXPECT_NEAR(c.rope_magnitude, 1.3688879454 / 1.1844439727, 1e-6);
  half.erase("mscale_all_dim");
  half["rope_type"] = "deepseek_yarn";
  c = first_cache(v2({{"rope_scaling", half}}));
  EXPECT_DOUBLE_EQ(c.softmax_scale, 1 / std::sqrt(20.0));
  EXPECT_NEAR(c.rope_magnitude, 1.3688879454, 1e-6);
  half["attn_factor"] = 0.5;  // of servers
  c = first_cache(v2({{"rope_scaling", half}}));
  EXPECT_NEAR(c.rope_magnitude, 0.5 * 1.3688879454, 1e-6);
  expect_refused(v2({{"rope_scaling", {{"type", "linear"}, {"factor", 4}}}}), "linear");
}

TEST(LatentConfig, parameters_are_those_of_the_published_shapes) {
  const auto parameters = [](const Json& config, size_t layer) {
    return parse_model(config)->spec().layers.at(layer).parameters;
  };
  // q_proj 64·80, kv_a 56·64, its norm 48, kv_b 4·32·48, o 4·20·64, two norms; dense 3·64·128.
  const int64_t attention = 64 * 80 + 56 * 64 + 48 + 4 * 32 * 48 + 80 * 64 + 2 * 64;
  EXPECT_EQ(parameters(v2({{"first_k_dense_replace", 1}}), 0), attention + 3 * 64 * 128);
  EXPECT_EQ(parameters(v2({{"first_k_dense_replace", 1}}), 1), attention + 16 * (3 * 64 * 32 + 64) + 3 * 64 * 32);
  // q_a 24·64, its norm 24, q_b 80·24 instead of q_proj
  EXPECT_EQ(parameters(v2({{"first_k_dense_replace", 1}, {"q_lora_rank", 24}}), 0),
            attention - 64 * 80 + 24 * 64 + 24 + 80 * 24 + 3 * 64 * 128);
}

TEST(LatentConfig, dense_and_mixed_layers) {
  const auto mixed = [](const Json& config) {
    const auto model = parse_model(config);
    std::string words;
    for (const LayerSpec& l : model->spec().layers) words += l.parameters > 100'000 ? 'm' : 'd';
    return words;
  };
  EXPECT_EQ(mixed(v2()), "mmmm");
  EXPECT_EQ(mixed(v3()), "dddm");
  EXPECT_EQ(mixed(v3({{"first_k_dense_replace", 1}, {"moe_layer_freq", 2}})), "ddmd");
  EXPECT_EQ(mixed(v3({{"n_routed_experts", nullptr}})), "dddd");
  EXPECT_EQ(mixed(deepseek("Glm4MoeLiteForCausalLM")), "dmmm");
  EXPECT_EQ(mixed(deepseek("Glm4MoeLiteForCausalLM", {{"mlp_layer_types", {"sparse", "dense", "dense", "sparse"}}})),
            "mddm");
}

TEST(LatentConfig, refusals_say_what_is_not_read) {
  expect_refused(v2({{"use_mla", false}}), "use_mla is false");
  expect_refused(v2({{"kv_lora_rank", nullptr}}), "kv_lora_rank is null");
  expect_refused(v2({{"topk_method", "best"}}), "'best'");
  expect_refused(v2({{"n_group", 4}}), "topk_method is 'greedy' with n_group 4");
  expect_refused(v3({{"n_group", 3}, {"topk_group", 2}}), "n_group 3");
  Json silent = v3({{"n_routed_experts", 12}});
  silent.erase("n_group");
  silent.erase("topk_group");
  expect_refused(silent, "n_group 8 and topk_group 4");  // the class's defaults
  expect_refused(v3({{"scoring_func", "tanh"}}), "'tanh'");
  expect_refused(v2({{"mlp_bias", true}}), "mlp_bias");
  expect_refused(v2({{"num_attention_heads", 1 << 30}}), "num_attention_heads is 1073741824, expected at most 16384");
  expect_refused(v2({{"num_attention_heads", 1 << 14}, {"v_head_dim", 1 << 30}}), "are too large");
  expect_refused(v3({{"index_n_heads", 4}}), "without index_topk");
  expect_refused(v3({{"index_topk", 64}}), "q_lora_rank is null");
  expect_refused(v3({{"mlp_layer_types", {"sparse"}}}), "mlp_layer_types has 1 entries");
  expect_refused(deepseek("Glm4MoeLiteForCausalLM", {{"mlp_layer_types", {"dense", "dense", "moe", "dense"}}}),
                 "'moe'");
  Json no_choice = v2();
  no_choice.erase("num_experts_per_tok");
  expect_refused(no_choice, "num_experts_per_tok");
  expect_refused(v2({{"qk_rope_head_dim", 7}}), "7");
  expect_refused(deepseek("DeepseekV4ForCausalLM"), "compressed entries");
  expect_refused(deepseek("LongcatFlashForCausalLM"), "two latent caches");
  expect_refused(deepseek("MiniCPM3ForCausalLM"), "is not supported");
}

Json sparse(Json changes = Json::object()) {
  Json config = deepseek("GlmMoeDsaForCausalLM", {{"q_lora_rank", 24}, {"index_n_heads", 2}, {"index_head_dim", 16}});
  config.update(changes);
  return config;
}

TEST(LatentConfig, an_indexer_picks_in_long_sequences_and_counts_as_parameters) {
  EXPECT_EQ(parse_model(v3())->spec().indexed_beyond, 0);
  EXPECT_EQ(parse_model(sparse())->spec().indexed_beyond, 2048);
  EXPECT_EQ(parse_model(sparse({{"index_topk", 64}}))->spec().indexed_beyond, 64);
  EXPECT_EQ(parse_model(v3({{"index_topk", 64}, {"q_lora_rank", 24}}))->spec().indexed_beyond, 64);
  const auto parameters = [](const Json& config, size_t layer) {
    return parse_model(config)->spec().layers[layer].parameters;
  };
  const Json shared = sparse({{"indexer_types", {"full", "shared", "full", "shared"}}});
  // wq_b 2·16·24, wk 16·64, its layer norm 2·16, weights_proj 2·64
  EXPECT_EQ(parameters(sparse(), 1) - parameters(shared, 1), 2 * 16 * 24 + 16 * 64 + 2 * 16 + 2 * 64);
  EXPECT_EQ(parameters(sparse(), 2), parameters(shared, 2));
  const Json by_letters = sparse({{"index_topk_pattern", "FSFS"}});
  const Json by_period = sparse({{"index_topk_freq", 2}, {"index_skip_topk_offset", 1}});
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(parameters(by_letters, i), parameters(shared, i)) << i;
    EXPECT_EQ(parameters(by_period, i), parameters(shared, i)) << i;
  }
  const ModelSpec of_all = parse_model(sparse())->spec(), of_some = parse_model(shared)->spec();
  EXPECT_EQ(of_some.n_pickers, 1);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(of_all.layers[i].picker, -1) << i;
    EXPECT_EQ(of_some.layers[i].picker, i % 2 == 0 ? -1 : static_cast<int>(i) - 1) << i;
  }
  EXPECT_EQ(of_some.last_taking_choices(2), 3);
  EXPECT_EQ(of_some.last_taking_choices(3), 3);
}

TEST(LatentConfig, keys_of_an_indexer_are_checked) {
  expect_refused(sparse({{"indexer_types", {"full", "shared"}}}), "indexer_types has 2 entries, expected 4");
  expect_refused(sparse({{"indexer_types", {"full", "half", "full", "full"}}}), "'half'");
  expect_refused(sparse({{"index_topk_pattern", "SFFF"}}), "index_topk_pattern begins with a layer that shares");
  expect_refused(sparse({{"index_topk", 0}}), "index_topk is 0");
  expect_refused(sparse({{"index_head_dim", 6}}),
                 "index_head_dim is 6, expected at least the 8 channels that RoPE rotates");
  expect_refused(sparse({{"rope_interleave", false}}), "rope_interleave is false");
  expect_refused(
      sparse({{"layer_types", {"indexed_attention", "full_attention", "indexed_attention", "indexed_attention"}}}),
      "'full_attention'");
  const Json words =
      Json::array({"deepseek_sparse_attention", "deepseek_sparse_attention", "indexed_attention", "indexed_attention"});
  EXPECT_EQ(refusal(sparse({{"layer_types", words}})), "accepted");
}

TEST(LatentConfig, kimi_k2_5_nests_a_deepseek_v3) {
  Json text = v3({{"model_type", "kimi_k2"}});
  Json config = {{"architectures", {"KimiK25ForConditionalGeneration"}}, {"model_type", "kimi_k25"}};
  config["text_config"] = text;
  const ModelSpec spec = parse_model(config)->spec();
  EXPECT_EQ(spec.caches.size(), 4U);
  EXPECT_EQ(spec.model_type, "kimi_k25");
  EXPECT_EQ(spec.default_prefix, "language_model.model.");
  config["text_config"]["model_type"] = "kimi_linear";
  expect_refused(config, "'kimi_linear'");
  config.erase("text_config");
  expect_refused(config, "text_config is missing");
}

Json plain(const char* cls, Json changes = Json::object()) {
  Json text = deepseek("DeepseekV2ForCausalLM", {{"use_mla", false},
                                                 {"qk_nope_head_dim", 0},
                                                 {"qk_rope_head_dim", 0},
                                                 {"v_head_dim", 0},
                                                 {"kv_lora_rank", nullptr}});
  text.update(changes);
  return {{"architectures", {cls}}, {"language_config", text}};
}

TEST(LatentConfig, heads_without_widths_cache_keys_and_values) {
  for (const char* cls : {"DeepseekOCRForCausalLM", "DeepseekOCR2ForCausalLM", "DeepseekVLV2ForCausalLM"}) {
    const ModelSpec spec = parse_model(plain(cls, {{"head_dim", 99}, {"num_key_value_heads", 2}}))->spec();
    EXPECT_EQ(spec.architecture, cls);
    EXPECT_FALSE(spec.caches[0].is_mla());
    EXPECT_EQ(spec.caches[0].n_kv_heads, 2);
    EXPECT_EQ(spec.caches[0].head_dim_k, 16);
    expect_refused(plain(cls, {{"use_mla", true}}), "use_mla is true, but qk_nope_head_dim and qk_rope_head_dim are 0");
    expect_refused(plain(cls, {{"qk_rope_head_dim", 8}}), "use_mla is false, but qk_nope_head_dim");
    expect_refused(plain(cls, {{"attention_bias", true}}), "attention_bias is true");
    expect_refused({{"architectures", {cls}}}, "there is no language_config");
  }
  const Json latent = {{"use_mla", true}, {"qk_nope_head_dim", 12}, {"qk_rope_head_dim", 8}, {"v_head_dim", 20}};
  expect_refused(plain("DeepseekOCRForCausalLM", latent), "this class has no latent attention");
}

TEST(LatentConfig, deepseek_ocr_has_the_published_number_of_parameters) {
  const Json sizes = {{"vocab_size", 129280},         {"hidden_size", 1280},      {"intermediate_size", 6848},
                      {"moe_intermediate_size", 896}, {"num_hidden_layers", 12},  {"num_attention_heads", 10},
                      {"n_routed_experts", 64},       {"n_shared_experts", 2},    {"num_experts_per_tok", 6},
                      {"first_k_dense_replace", 1},   {"num_key_value_heads", 10}};
  const auto model = parse_model(plain("DeepseekOCRForCausalLM", sizes));
  int64_t of_layers = 0;
  for (const LayerSpec& layer : model->spec().layers) of_layers += layer.parameters;
  EXPECT_EQ(of_layers, 2'603'776'000);  // as the shapes in its published file add up
  EXPECT_EQ(model->spec().layers[0].parameters, 32'852'480);
}

TEST(LatentConfig, deepseek_vl2_with_latent_attention_is_its_text_model) {
  const Json config = {{"architectures", {"DeepseekVLV2ForCausalLM"}}, {"language_config", v2()}};
  const ModelSpec spec = parse_model(config)->spec();
  EXPECT_EQ(spec.architecture, "DeepseekV2ForCausalLM");
  EXPECT_TRUE(spec.caches[0].is_mla());
  EXPECT_EQ(spec.default_prefix, "language.model.");
}

}  // namespace
}  // namespace kvcal
