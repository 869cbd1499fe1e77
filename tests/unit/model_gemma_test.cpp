// Configs of Gemma, as published and in the current form: layer kinds, scales, defaults of missing keys, refusals.
#include <gtest/gtest.h>

#include <cmath>

#include "harness/message_of.h"
#include "model/architecture.h"

namespace kvcal {
namespace {

Json gemma(const char* architecture, Json changes = Json::object()) {
  Json config = {{"architectures", {architecture}}, {"vocab_size", 100},      {"hidden_size", 64},
                 {"intermediate_size", 128},        {"num_hidden_layers", 7}, {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},        {"head_dim", 32}};
  config.update(changes);
  return config;
}

std::vector<int64_t> windows(const Json& config) {
  std::vector<int64_t> w;
  const auto model = parse_model(config);
  for (const KvLayout& c : model->spec().caches) w.push_back(c.window);
  return w;
}

std::string refusal(const Json& config) {
  return message_of([&] { parse_model(config); });
}

TEST(GemmaConfig, layers_slide_by_each_generations_rule) {
  using W = std::vector<int64_t>;
  EXPECT_EQ(windows(gemma("GemmaForCausalLM")), W(7, 0));
  EXPECT_EQ(windows(gemma("Gemma2ForCausalLM")), (W{4096, 0, 4096, 0, 4096, 0, 4096}));
  EXPECT_EQ(windows(gemma("Gemma3ForCausalLM", {{"sliding_window", 9}})), (W{9, 9, 9, 9, 9, 0, 9}));
  EXPECT_EQ(windows(gemma("Gemma3ForCausalLM", {{"sliding_window", 9}, {"sliding_window_pattern", 3}})),
            (W{9, 9, 0, 9, 9, 0, 9}));
  const Json types = {"full_attention", "sliding_attention", "full_attention"};
  EXPECT_EQ(windows(gemma("Gemma2ForCausalLM", {{"num_hidden_layers", 3}, {"layer_types", types}})), (W{0, 4096, 0}));
}

TEST(GemmaConfig, softmax_scale_is_of_the_query_scalar) {
  const auto scale = [](const Json& config) { return parse_model(config)->spec().caches.at(0).softmax_scale; };
  EXPECT_DOUBLE_EQ(scale(gemma("GemmaForCausalLM")), 1 / std::sqrt(32.0));
  EXPECT_DOUBLE_EQ(scale(gemma("Gemma2ForCausalLM")), 1 / 16.0);
  EXPECT_DOUBLE_EQ(scale(gemma("Gemma2ForCausalLM", {{"query_pre_attn_scalar", 144}})), 1 / 12.0);
}

TEST(GemmaConfig, norms_what_attention_adds_from_the_second_on) {
  const auto normed = [](const Json& config) { return parse_model(config)->spec().caches.at(0).normed_output; };
  EXPECT_FALSE(normed(gemma("GemmaForCausalLM")));
  EXPECT_TRUE(normed(gemma("Gemma2ForCausalLM")));
}

TEST(GemmaConfig, says_whether_attention_logits_are_capped) {
  const auto capped = [](const Json& config) { return parse_model(config)->spec().caches.at(0).capped_logits; };
  EXPECT_FALSE(capped(gemma("GemmaForCausalLM")));
  EXPECT_TRUE(capped(gemma("Gemma2ForCausalLM")));
  EXPECT_FALSE(capped(gemma("Gemma2ForCausalLM", {{"attn_logit_softcapping", nullptr}})));
}

// gemma-3-4b's text_config, whole: everything else is the class's.
TEST(GemmaConfig, missing_keys_of_gemma_3_4b_are_the_classes_defaults) {
  const Json text = {{"hidden_size", 2560},         {"intermediate_size", 10240},
                     {"model_type", "gemma3_text"}, {"num_hidden_layers", 34},
                     {"sliding_window", 1024},      {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}}};
  const auto model = parse_model(
      {{"architectures", {"Gemma3ForConditionalGeneration"}}, {"model_type", "gemma3"}, {"text_config", text}});
  const ModelSpec& spec = model->spec();
  ASSERT_EQ(spec.caches.size(), 34u);
  EXPECT_EQ(spec.vocab, 262208);
  EXPECT_TRUE(spec.tied_head);
  EXPECT_EQ(spec.default_prefix, "model.language_model.");
  const KvLayout& c = spec.caches[5];
  EXPECT_EQ(c.n_heads, 8);
  EXPECT_EQ(c.n_kv_heads, 4);
  EXPECT_EQ(c.head_dim_k, 256);
  EXPECT_EQ(c.window, 0);
  EXPECT_EQ(spec.caches[6].window, 1024);
}

Json gemma4(Json changes = Json::object()) {
  return gemma("Gemma4ForCausalLM", [&] {
    Json c = {{"global_head_dim", 64}, {"hidden_size_per_layer_input", 0}};
    c.update(changes);
    return c;
  }());
}

TEST(GemmaConfig, layers_of_gemma_4_have_heads_by_kind_and_the_last_one_is_full) {
  const auto model = parse_model(gemma4({{"attention_k_eq_v", true}, {"num_global_key_value_heads", 1}}));
  const ModelSpec& spec = model->spec();
  ASSERT_EQ(spec.caches.size(), 7u);
  for (const KvLayout& c : spec.caches) {
    const bool full = c.layer == 5 || c.layer == 6;
    EXPECT_EQ(c.head_dim_k, full ? 64 : 32) << "layer " << c.layer;
    EXPECT_EQ(c.n_kv_heads, full ? 1 : 2) << "layer " << c.layer;
    EXPECT_EQ(c.window, full ? 0 : 512) << "layer " << c.layer;
    EXPECT_EQ(c.softmax_scale, 1);
  }
  EXPECT_EQ(parse_model(gemma4({{"num_global_key_value_heads", 1}}))->spec().caches[5].n_kv_heads, 2)
      << "only where keys are values";
}

TEST(GemmaConfig, layers_of_gemma_4_share_the_last_cache_of_their_kind) {
  const auto model = parse_model(gemma4({{"num_hidden_layers", 9}, {"num_kv_shared_layers", 3}}));
  const ModelSpec& spec = model->spec();
  ASSERT_EQ(spec.caches.size(), 6u);
  EXPECT_EQ(spec.layers[6].cache, -1);
  EXPECT_EQ(spec.layers[6].shares_cache, 4);
  EXPECT_EQ(spec.layers[7].shares_cache, 4);
  EXPECT_EQ(spec.layers[8].shares_cache, 5);  // full
  EXPECT_EQ(spec.last_reader(4), 7);
  EXPECT_EQ(spec.n_sharing(4), 2);
  EXPECT_EQ(spec.last_reader(3), 3);
  EXPECT_EQ(spec.last_counted_layer(), 8);
}

TEST(GemmaConfig, per_layer_config_says_what_the_older_keys_said) {
  const Json newer = {{"5", {{"head_dim", 64}}}, {"6", {{"head_dim", 64}}}};
  const auto a = parse_model(gemma4()), b = parse_model(gemma4({{"per_layer_config", newer}, {"global_head_dim", 8}}));
  ASSERT_EQ(a->spec().caches.size(), b->spec().caches.size());
  for (size_t i = 0; i < a->spec().caches.size(); ++i)
    EXPECT_EQ(a->spec().caches[i].head_dim_k, b->spec().caches[i].head_dim_k) << "cache " << i;
}

Json gemma3n(Json changes = Json::object()) {
  return gemma("Gemma3nForCausalLM", [&] {
    Json c = {{"num_kv_shared_layers", 0}};
    c.update(changes);
    return c;
  }());
}

// gemma-3n-E4B is the class's defaults.
TEST(GemmaConfig, gemma_3n_shares_the_caches_of_the_last_15_of_35_layers) {
  const auto model = parse_model({{"architectures", {"Gemma3nForConditionalGeneration"}},
                                  {"text_config", {{"model_type", "gemma3n_text"}}},
                                  {"vision_config", Json::object()},
                                  {"image_token_id", 262145}});
  const ModelSpec& spec = model->spec();
  ASSERT_EQ(spec.caches.size(), 20u);
  EXPECT_EQ(spec.layers.size(), 35u);
  EXPECT_EQ(spec.caches[4].window, 0);
  EXPECT_EQ(spec.caches[18].window, 512);
  EXPECT_EQ(spec.caches[18].n_kv_heads, 2);
  EXPECT_EQ(spec.caches[18].head_dim_k, 256);
  EXPECT_EQ(spec.layers[20].shares_cache, 18);
  EXPECT_EQ(spec.layers[34].shares_cache, 19);
  EXPECT_EQ(spec.residual_width(), 4 * 2048);
  EXPECT_EQ(spec.placeholders, std::vector<int32_t>{262145});
  EXPECT_FALSE(spec.images_seen_whole);
}

TEST(GemmaConfig, layers_of_gemma_3n_are_as_wide_as_a_list_says) {
  const auto model = parse_model(gemma3n({{"intermediate_size", {8, 16, 8, 8, 8, 8, 8}}}));
  const ModelSpec& spec = model->spec();
  EXPECT_EQ(spec.layers[1].parameters - spec.layers[2].parameters, 3 * 64 * 8);
  EXPECT_EQ(windows(gemma3n({{"sliding_window", 9}})), (std::vector<int64_t>{9, 9, 9, 9, 0, 9, 9}));
}

TEST(GemmaConfig, refusals_name_the_cause) {
  const auto expect = [](const Json& config, const std::string& part) {
    const std::string message = refusal(config);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(gemma("Gemma2ForCausalLM", {{"hidden_activation", "silu"}}), "hidden_activation is 'silu'");
  expect(gemma("GemmaForCausalLM", {{"hidden_act", "relu"}}), "hidden_act is 'relu'");
  expect(gemma("Gemma2ForCausalLM", {{"attn_logit_softcapping", -1}}), "attn_logit_softcapping is not a positive");
  expect(gemma("Gemma3ForCausalLM", {{"query_pre_attn_scalar", 0}}), "query_pre_attn_scalar");
  expect(gemma("Gemma3ForCausalLM", {{"sliding_window", nullptr}}), "sliding_window is null");
  expect(gemma("Gemma3ForCausalLM", {{"use_bidirectional_attention", true}}), "there is no KV cache");
  expect(gemma("Gemma3ForCausalLM", {{"num_hidden_layers", 1}, {"layer_types", {"chunked_attention"}}}),
         "unknown word in layer_types 'chunked_attention'");
  expect(gemma4({{"use_bidirectional_attention", "all"}}), "there is no KV cache");
  expect(gemma4({{"num_kv_shared_layers", 7}}), "num_kv_shared_layers is 7 of 7 layers");
  expect(gemma4({{"num_kv_shared_layers", 4}}), "leaves no layer of full_attention that owns a KV cache");
  expect(gemma4({{"per_layer_config", {{"5", {{"sliding_window", 3}}}}}}), "unknown key 'sliding_window'");
  expect(gemma4({{"per_layer_config", {{"5", {{"head_dim", 64}}}}}}), "heads of different widths");
  expect(gemma4({{"enable_moe_block", true}, {"num_experts", 2}, {"moe_intermediate_size", 8}, {"top_k_experts", 3}}),
         "top_k_experts 3");
  expect(gemma4({{"rope_parameters", {{"rope_theta", 10000.0}}}}), "rope_parameters are not by layer kind");
  expect(gemma3n({{"altup_active_idx", 4}}), "altup_active_idx is 4, expected less than altup_num_inputs");
  expect(gemma3n({{"altup_num_inputs", 17}}), "altup_num_inputs is 17, expected at most 16");
  expect(gemma3n({{"activation_sparsity_pattern", 0.5}}), "activation_sparsity_pattern is not a list with a number");
  expect(gemma3n({{"activation_sparsity_pattern", {0.5, 0, 0, 0, 0, 0, 1}}}), "holds 1, expected shares");
  expect(gemma3n({{"intermediate_size", {8, 8}}}),
         "intermediate_size is not a list with a number for each of 7 layers");
  expect(gemma3n({{"num_kv_shared_layers", 3}}), "leaves no layer of full_attention that owns a KV cache");
  expect(gemma3n({{"hidden_size_per_layer_input", 0}}), "hidden_size_per_layer_input");
}

}  // namespace
}  // namespace kvcal
