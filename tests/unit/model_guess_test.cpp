// What is told of classes that are not read, and what of their configs is guessed.
#include <gtest/gtest.h>

#include "base/error.h"
#include "harness/message_of.h"
#include "model/architecture.h"
#include "model/config_guess.h"

namespace kvcal {
namespace {

/// A config of a class that nobody knows: 4 layers, 8 query heads, 2 KV heads of 16.
Json foo(const Json& changes = Json::object()) {
  Json config = {{"architectures", {"FooForCausalLM"}},
                 {"model_type", "foo"},
                 {"num_hidden_layers", 4},
                 {"hidden_size", 64},
                 {"num_attention_heads", 8},
                 {"num_key_value_heads", 2},
                 {"head_dim", 16},
                 {"vocab_size", 100}};
  config.update(changes);
  return config;
}

GuessedModel guessed(const Json& config) {
  const std::optional<GuessedModel> guess = guess_unknown_class(config);
  if (!guess) fail("nothing is guessed");
  return *guess;
}

std::string text_of(const Json& config) { return caches_text(guessed(config).spec); }

std::string refusal(const Json& config) {
  return message_of([&] { parse_model(config); });
}

void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text << "\nexpected part: " << part;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
}

TEST(Guess, ReadsTheUsualKeys) {
  const GuessedModel g = guessed(foo());
  EXPECT_EQ(caches_text(g.spec), "4 layers: 4 with 2 KV heads of 16 (8 query heads)");
  EXPECT_EQ(kv_bytes_per_token(g.spec, 2), 4 * 2 * 2 * 16 * 2);
  EXPECT_EQ(g.spec.architecture, "FooForCausalLM");
  EXPECT_EQ(g.open, "");
  expect_contains(g.told_by, "num_hidden_layers");
  expect_contains(g.told_by, "num_key_value_heads, head_dim");
}

TEST(Guess, TakesWhatIsMissingAsUsual) {
  Json config = foo();
  config.erase("head_dim");
  EXPECT_EQ(text_of(config), "4 layers: 4 with 2 KV heads of 8 (8 query heads)");
  config.erase("num_key_value_heads");
  const GuessedModel g = guessed(config);
  EXPECT_EQ(caches_text(g.spec), "4 layers: 4 with 8 KV heads of 8 (8 query heads)");
  expect_contains(g.open, "as many KV heads as query heads");
}

TEST(Guess, ReadsNestedConfigs) {
  for (const char* key : {"text_config", "llm_config", "language_config"}) {
    Json text = foo();
    text.erase("architectures");
    const Json config = {{"architectures", {"FooForConditionalGeneration"}}, {"model_type", "foo_vl"}, {key, text}};
    EXPECT_EQ(text_of(config), "4 layers: 4 with 2 KV heads of 16 (8 query heads)") << key;
  }
}

TEST(Guess, ReadsWindowsAndLayersWithoutACache) {
  const Json words = {"full_attention", "sliding_attention", "linear_attention", "sliding_attention"};
  const GuessedModel g = guessed(foo({{"layer_types", words}, {"sliding_window", 512}}));
  EXPECT_EQ(
      caches_text(g.spec),
      "4 layers: 1 with 2 KV heads of 16 (8 query heads), 2 with 2 KV heads of 16 (8 query heads) and a window of "
      "512, 1 without a KV cache");
  EXPECT_EQ(g.open, "recurrent state is not counted");
  EXPECT_EQ(g.spec.layers[3].cache, 2);
  expect_contains(guessed(foo({{"layer_types", words}})).open, "the length of the window is not told");
  expect_contains(guessed(foo({{"sliding_window", 512}})).open, "no key says which layers have the window of 512");
  EXPECT_EQ(guessed(foo({{"sliding_window", 512}, {"use_sliding_window", false}})).open, "");
}

TEST(Guess, ReadsOtherWordsForHybrids) {
  const std::string one = "4 layers: 1 with 2 KV heads of 16 (8 query heads), 3 without a KV cache";
  EXPECT_EQ(text_of(foo({{"hybrid_override_pattern", "M-*M"}})), one);
  EXPECT_EQ(text_of(foo({{"full_attention_interval", 4}})), one);
  EXPECT_EQ(text_of(foo({{"attn_type_list", {0, 0, 0, 1}}})), one);
  EXPECT_EQ(text_of(foo({{"attn_layer_period", 4}, {"attn_layer_offset", 2}})), one);
  EXPECT_EQ(guessed(foo({{"attn_layer_period", 4}, {"attn_layer_offset", 2}})).spec.caches[0].layer, 2);
  EXPECT_EQ(text_of(foo({{"layers_block_type", {"mamba", "mamba", "hybrid", "mamba"}}})), one);
  expect_contains(guessed(foo({{"mamba_d_state", 16}})).open, "keys speak of recurrent layers");
}

TEST(Guess, ReadsLatentRows) {
  const GuessedModel g = guessed(foo({{"kv_lora_rank", 64}, {"qk_rope_head_dim", 8}}));
  EXPECT_EQ(caches_text(g.spec), "4 layers: 4 with a latent row of 72 (8 query heads)");
  EXPECT_EQ(kv_bytes_per_token(g.spec, 2), 4 * 72 * 2);
}

TEST(Guess, ReadsHeadsOfEachLayer) {
  EXPECT_EQ(text_of(foo({{"num_key_value_heads", {2, 4, 4, 4}}})),
            "4 layers: 1 with 2 KV heads of 16 (8 query heads), 3 with 4 KV heads of 16 (8 query heads)");
  EXPECT_EQ(text_of(foo({{"num_attention_heads_per_layer", {8, 16, 8, 8}}})),
            "4 layers: 3 with 2 KV heads of 16 (8 query heads), 1 with 2 KV heads of 16 (16 query heads)");
  expect_contains(guessed(foo({{"num_kv_shared_layers", 2}})).open, "count with one of their own");
}

TEST(Guess, SaysNothingWhereTheConfigTellsNothing) {
  for (const char* key : {"num_hidden_layers", "num_attention_heads"}) {
    Json config = foo();
    config.erase(key);
    EXPECT_FALSE(guess_unknown_class(config)) << key;
    for (const Json& bad : {Json(0), Json(-4), Json("4"), Json(1e12), Json(1099511627776), Json::array(), Json()}) {
      EXPECT_FALSE(guess_unknown_class(foo({{key, bad}}))) << key << " " << bad;
      expect_contains(refusal(foo({{key, bad}})), "known ones; 'kvcal-torch calibrate'");
    }
  }
  EXPECT_FALSE(guess_unknown_class(foo({{"layer_types", {"mamba", "mamba", "mamba", "mamba"}}})));
  EXPECT_FALSE(guess_unknown_class(Json::array()));
}

TEST(Guess, IsOfUnknownClassesOnly) {
  EXPECT_FALSE(guess_unknown_class(foo({{"architectures", {"LlamaForCausalLM"}}})));
  EXPECT_FALSE(guess_unknown_class(foo({{"architectures", {"DeepseekV4ForCausalLM"}}})));
  EXPECT_FALSE(guess_unknown_class(foo({{"architectures", {"Mamba2ForCausalLM"}}})));
  EXPECT_FALSE(guess_unknown_class(foo({{"architectures", {"FooForSequenceClassification"}}})));
  EXPECT_FALSE(guess_unknown_class(foo({{"is_encoder_decoder", true}})));
}

TEST(Guess, IsOfClassesThatAreRefusedForOtherThanTheirCaches) {
  const GuessedModel g = guessed(foo({{"architectures", {"BloomForCausalLM"}}}));
  EXPECT_EQ(caches_text(g.spec), "4 layers: 4 with 2 KV heads of 16 (8 query heads)");
  expect_contains(g.refused, "biased by distance (ALiBi)");
}

TEST(Guess, IsInTheRefusalWithTheOtherWay) {
  expect_contains(refusal(foo()),
                  "known ones, its config describes 4 layers: 4 with 2 KV heads of 16 (8 query heads); "
                  "'kvcal-torch calibrate' measures most decoders that transformers runs (docs/torch.md)");
  expect_contains(refusal(foo({{"model_type", 7}})), "unknown architecture 'FooForCausalLM'; docs/models.md");
  Json unnamed = foo();
  unnamed.erase("architectures");
  expect_contains(refusal(unnamed), "which matches no supported class; 'kvcal-torch calibrate'");
}

TEST(Guess, OfAClassRefusedByNameIsTheReason) {
  const auto said = [](const char* name) { return refusal(foo({{"architectures", {name}}})); };
  expect_contains(said("MiniCPM3ForCausalLM"), "is not implemented; 'kvcal-torch calibrate'");
  for (const char* name : {"BloomForCausalLM", "MambaForCausalLM", "DeepseekV4ForCausalLM", "FooRewardModel"})
    EXPECT_EQ(said(name).find("kvcal-torch"), std::string::npos) << said(name);
}

TEST(Guess, NamesTheClassThatServersHaveOfAFamily) {
  const Json minimax =
      foo({{"architectures", {"MiniMaxM3ForCausalLM"}}, {"sparse_attention_config", {{"sparse_topk_blocks", 16}}}});
  expect_contains(refusal(minimax),
                  "have no class of this name, they serve the family as 'MiniMaxM3SparseForCausalLM'");
  EXPECT_EQ(guessed(minimax).open, "keys of an indexer are not counted");
  expect_contains(refusal(foo({{"architectures", {"Step3p7FlashForCausalLM"}}})),
                  "they serve the family as 'Step3p7ForConditionalGeneration'; docs/models.md");
}

}  // namespace
}  // namespace kvcal
