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
}

}  // namespace
}  // namespace kvcal
