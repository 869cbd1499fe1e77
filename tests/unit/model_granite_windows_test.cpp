// Configs of Granite with windows and sinks.
#include <gtest/gtest.h>

#include "harness/message_of.h"
#include "model/architecture.h"

namespace kvcal {
namespace {

Json granite(const char* architecture, const Json& changes = Json::object()) {
  Json config = {{"architectures", {architecture}}, {"hidden_size", 64},        {"num_hidden_layers", 2},
                 {"num_attention_heads", 4},        {"num_key_value_heads", 2}, {"attention_multiplier", 0.125}};
  config.update(changes);
  return config;
}

ModelSpec windowed(const Json& changes = Json::object()) {
  return parse_model(granite("GraniteSWAForCausalLM", changes))->spec();
}

void expect_refusal(const Json& config, const std::string& part) {
  const std::string message = message_of([&] { parse_model(config); });
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(GraniteWindowsConfig, all_layers_have_sinks_and_the_factor_of_the_softmax) {
  const ModelSpec spec = windowed();
  ASSERT_EQ(spec.caches.size(), 2U);
  for (const KvLayout& cache : spec.caches) {
    EXPECT_TRUE(cache.learned_sinks);
    EXPECT_EQ(cache.softmax_scale, 0.125);
  }
  EXPECT_EQ(spec.caches[0].window, 0);
  EXPECT_EQ(spec.caches[1].window, 128);
  EXPECT_TRUE(spec.tied_head);
}

TEST(GraniteWindowsConfig, refusals) {
  const auto with = [](const Json& changes) { return granite("GraniteSWAForCausalLM", changes); };
  expect_refusal(with({{"sliding_window", nullptr}}), "sliding_window is null");
  expect_refusal(with({{"sliding_window", nullptr}, {"layer_types", {"full_attention", "sliding_attention"}}}),
                 "layer_types names sliding_attention, but there is no sliding_window");
  expect_refusal(with({{"layer_rope_theta", 1e4}}), "layer_rope_theta is '10000.0', expected a list");
  expect_refusal(with({{"layer_rope_theta", {1e4, 1}}}), "layer_rope_theta: rope_theta is 1.0");
  expect_refusal(with({{"layer_rope_theta", {1e4}}}), "layer_rope_theta has 1 entries, expected 2");
  expect_refusal(with({{"layer_rope_theta", {1e4, -1}}}), "layer_rope_theta holds '-1'");
  expect_refusal(with({{"layer_rope_theta", {1e4, "0"}}}), "expected bases, or 0 for layers that do not rotate");
  expect_refusal(with({{"attention_sinks", false}}), "attention_sinks is false: vLLM alone");
  for (const char* other : {"GraniteForCausalLM", "GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"})
    expect_refusal(granite(other, {{"layer_rope_theta", {1e4, 0}}}), "are of GraniteSWAForCausalLM");
}

}  // namespace
}  // namespace kvcal
