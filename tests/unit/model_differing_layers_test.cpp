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

}  // namespace
}  // namespace kvcal
