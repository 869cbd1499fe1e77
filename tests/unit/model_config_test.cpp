// Layer lists and cache layouts from configs: small ones, and what the configs of published models say about theirs.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "model/architecture.h"
#include "model/config_reading.h"

namespace kvcal {
namespace {

Json llama(Json changes = Json::object()) {
  Json config = {{"architectures", {"LlamaForCausalLM"}},
                 {"model_type", "llama"},
                 {"vocab_size", 100},
                 {"hidden_size", 64},
                 {"intermediate_size", 128},
                 {"num_hidden_layers", 3},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2}};
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

TEST(Config, head_dim_defaults_to_hidden_by_heads_and_may_differ) {
  EXPECT_EQ(parse_model(llama())->spec().caches.at(0).head_dim_k, 16);
  EXPECT_EQ(parse_model(llama({{"head_dim", 32}}))->spec().caches.at(0).head_dim_k, 32);
  EXPECT_EQ(parse_model(llama({{"head_dim", nullptr}}))->spec().caches.at(0).head_dim_k, 16);
  EXPECT_EQ(parse_model(llama({{"num_key_value_heads", nullptr}}))->spec().caches.at(0).n_kv_heads, 4);
}

TEST(Config, every_layer_of_a_dense_model_owns_a_cache) {
  const ModelSpec spec = parse_model(llama())->spec();
  ASSERT_EQ(spec.caches.size(), 3u);
  EXPECT_EQ(spec.caches[2].name, "layers.2.self_attn");
  EXPECT_EQ(kv_bytes_per_token(spec, 2), 3 * 2 * 32 * 2);
  EXPECT_EQ(spec.last_counted_layer(), 2);
}

TEST(Config, windows_follow_each_familys_rule) {
  const auto windows = [](const Json& config) {
    std::vector<int64_t> w;
    const auto model = parse_model(config);
    for (const KvLayout& c : model->spec().caches) w.push_back(c.window);
    return w;
  };
  using W = std::vector<int64_t>;
  const auto with = [](const char* cls, Json changes) {
    Json c = llama(changes);
    c["architectures"] = {cls};
    return c;
  };
  EXPECT_EQ(windows(with("MistralForCausalLM", Json::object())), (W{4096, 4096, 4096}))
      << "the class default when the key is absent";
  EXPECT_EQ(windows(with("MistralForCausalLM", {{"sliding_window", nullptr}})), (W{0, 0, 0}));
  EXPECT_EQ(windows(with("MistralForCausalLM", {{"sliding_window", 128}})), (W{128, 128, 128}));
  EXPECT_EQ(windows(with("Qwen2ForCausalLM", {{"sliding_window", 128}})), (W{0, 0, 0})) << "use_sliding_window is off";
  EXPECT_EQ(windows(with("Qwen2ForCausalLM",
                         {{"sliding_window", 128}, {"use_sliding_window", true}, {"max_window_layers", 1}})),
            (W{0, 128, 128}));
  EXPECT_EQ(windows(with("Qwen3ForCausalLM",
                         {{"sliding_window", 64},
                          {"use_sliding_window", true},
                          {"layer_types", {"sliding_attention", "full_attention", "sliding_attention"}}})),
            (W{64, 0, 64}));
}

TEST(Config, hybrid_layers_follow_layer_types_or_the_interval) {
  Json config = llama({{"architectures", {"Qwen3_5ForCausalLM"}}, {"num_hidden_layers", 8}});
  const auto layers_with_cache = [](const Json& c) {
    std::vector<int> layers;
    const auto model = parse_model(c);
    for (const KvLayout& cache : model->spec().caches) layers.push_back(cache.layer);
    return layers;
  };
  EXPECT_EQ(layers_with_cache(config), (std::vector<int>{3, 7}));
  config["full_attention_interval"] = 2;
  EXPECT_EQ(layers_with_cache(config), (std::vector<int>{1, 3, 5, 7}));
  config["layer_types"] = std::vector<std::string>(8, "linear_attention");
  config["layer_types"][5] = "full_attention";
  EXPECT_EQ(layers_with_cache(config), std::vector<int>{5});
  EXPECT_EQ(parse_model(config)->spec().layers[0].kind, LayerKind::GatedDeltaNet);
}

TEST(Config, a_wrapper_is_read_from_its_text_config) {
  Json text = llama({{"num_hidden_layers", 4}});
  text.erase("architectures");
  const Json config = {{"architectures", {"Qwen3_5ForConditionalGeneration"}},
                       {"model_type", "qwen3_5"},
                       {"tie_word_embeddings", true},
                       {"text_config", text}};
  const ModelSpec spec = parse_model(config)->spec();
  EXPECT_EQ(spec.model_type, "qwen3_5");
  EXPECT_EQ(spec.layers.size(), 4u);
  EXPECT_TRUE(spec.tied_head);
}

TEST(Config, names_that_only_servers_know_are_the_class_they_run) {
  const auto as = [](const char* name, Json changes) {
    changes["architectures"] = {name};
    return llama(changes);
  };
  const auto window = [&](Json c) { return parse_model(c)->spec().caches[0].window; };
  const Json windows = {{"sliding_window", 128}, {"use_sliding_window", true}, {"max_window_layers", 0}};
  EXPECT_EQ(window(as("DotsOCRForCausalLM", windows)), window(as("Qwen2ForCausalLM", windows)));
  EXPECT_EQ(refusal(as("PanguEmbeddedForCausalLM", {{"bias", true}})), "accepted");
  EXPECT_EQ(refusal(as("XverseForCausalLM", {{"tie_word_embeddings", false}})), "accepted");
  EXPECT_EQ(refusal(as("Ernie4_5_ForCausalLM", {{"use_bias", false}})), "accepted");
}

TEST(Config, names_that_only_servers_know_refuse_what_servers_do_otherwise) {
  const auto contains = [](const char* name, Json changes, const std::string& part) {
    changes["architectures"] = {name};
    const std::string text = refusal(llama(changes));
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  contains("XverseForCausalLM", {{"attention_bias", true}}, "attention_bias is true, which no server reads");
  contains("XverseForCausalLM", {{"tie_word_embeddings", true}}, "tie_word_embeddings is true, which no server");
  contains("Ernie4_5_ForCausalLM", {{"use_bias", true}}, "use_bias is true");
  contains("Ernie4_5_ForCausalLM", {{"moe_layer_start_index", 1}}, "moe_layer_start_index is given");
  contains("PanguEmbeddedForCausalLM", {{"kv_lora_rank", 512}}, "kv_lora_rank is given");
  contains("PanguEmbeddedForCausalLM", {{"n_routed_experts", 8}}, "n_routed_experts is given");
  contains("PanguEmbeddedForCausalLM", {{"param_sink_number", 128}}, "param_sink_number is given");
  contains("PanguEmbeddedForCausalLM", {{"sandwich_norm", true}}, "sandwich_norm is true");
  contains("InternS2PreviewForConditionalGeneration", Json::object(), "there is no text_config");
  contains("InternS2PreviewForConditionalGeneration", {{"text_config", {{"model_type", "qwen3_5_text"}}}},
           "'qwen3_5_text'");
  contains("LightOnOCRForConditionalGeneration", {{"text_config", {{"model_type", "qwen2"}}}}, "'qwen2'");
  contains("TeleFLMForCausalLM", Json::object(), "input_mult");
  contains("MistralLarge3ForCausalLM", Json::object(), "DeepseekV3ForCausalLM, which is supported");
  contains("Rnj1ForCausalLM", Json::object(), "the chunk before theirs");
  contains("SolarForCausalLM", Json::object(), "bskcn");
}

TEST(Config, refusals_name_the_cause) {
  const auto contains = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  contains(refusal(Json{{"architectures", {"LlamaForCausalML"}}}), "did you mean 'LlamaForCausalLM'?");
  contains(refusal(Json{{"architectures", {"Olmo9ForCausalLM"}}, {"model_type", "olmo9"}}),
           "unknown architecture 'Olmo9ForCausalLM', model_type 'olmo9'; docs/models.md lists the");
  EXPECT_LT(refusal(Json{{"architectures", {"Olmo9ForCausalLM"}}}).size(), 200u) << "no list of all that are read";
  contains(refusal(Json::object()), "names no architecture");
  contains(refusal(Json::array()), "not an object");
  contains(refusal(llama({{"num_attention_heads", 3}})), "not a multiple of num_key_value_heads");
  contains(refusal(llama({{"hidden_act", "gelu"}})), "hidden_act is 'gelu'");
  contains(refusal(llama({{"num_hidden_layers", 0}})), "num_hidden_layers is 0");
  contains(refusal(llama({{"num_hidden_layers", 100000}})), "at most 4096");
  contains(refusal(llama({{"hidden_size", "64"}})), "hidden_size");
  contains(refusal(llama({{"rms_norm_eps", 0}})), "rms_norm_eps");
  contains(refusal(llama({{"text_config", 3}})), "text_config is not an object");
  contains(refusal(llama({{"architectures", {"Qwen3ForCausalLM"}}, {"layer_types", {"full_attention"}}})),
           "layer_types has 1 entries, expected 3");
  contains(refusal(llama({{"architectures", {"Qwen3_5ForCausalLM"}},
                          {"layer_types", {"full_attention", "mamba", "full_attention"}}})),
           "unknown word in layer_types 'mamba'");
  contains(
      refusal(llama({{"architectures", {"Qwen3NextForCausalLM"}}, {"num_experts", 4}, {"num_experts_per_tok", 9}})),
      "num_experts_per_tok 9 does not fit num_experts 4");
  contains(refusal(llama({{"architectures", {"Qwen3NextForCausalLM"}}, {"mlp_only_layers", {7}}})), "mlp_only_layers");
}

TEST(Config, dense_families_choose_windows_and_rotation_by_layer) {
  struct Layer {
    int64_t window, rotary_dim;
    bool operator==(const Layer&) const = default;
  };
  const auto layers = [](const char* cls, Json changes) {
    Json c = llama({{"num_hidden_layers", 4}});
    c.update(changes);
    c["architectures"] = {cls};
    std::vector<Layer> out;
    const auto model = parse_model(c);
    for (const KvLayout& cache : model->spec().caches) out.push_back({cache.window, cache.rotary_dim});
    return out;
  };
  using L = std::vector<Layer>;
  EXPECT_EQ(layers("SmolLM3ForCausalLM", Json::object()), (L{{0, 16}, {0, 16}, {0, 16}, {0, 0}}));
  EXPECT_EQ(layers("SmolLM3ForCausalLM", {{"no_rope_layers", {0, 1, 1, 1}}}), (L{{0, 0}, {0, 16}, {0, 16}, {0, 16}}))
      << "1 means that it rotates";
  EXPECT_EQ(layers("Exaone4ForCausalLM", {{"sliding_window_pattern", "LLG"}, {"sliding_window", 8}}),
            (L{{8, 16}, {8, 16}, {0, 0}, {8, 16}}));
  EXPECT_EQ(layers("Exaone4ForCausalLM", {{"sliding_window_pattern", 2}, {"sliding_window", 8}}),
            (L{{8, 16}, {0, 0}, {8, 16}, {0, 0}}));
  EXPECT_EQ(layers("Exaone4ForCausalLM", {{"sliding_window", nullptr}}), (L(4, {0, 16})));
  EXPECT_EQ(layers("Olmo3ForCausalLM", Json::object()), (L{{4096, 16}, {4096, 16}, {4096, 16}, {0, 16}}));
  EXPECT_EQ(layers("MinistralForCausalLM", {{"sliding_window", 8}}), (L(4, {8, 16})));
  EXPECT_EQ(layers("Phi3ForCausalLM", {{"partial_rotary_factor", 0.75}}), (L(4, {0, 12})));
  EXPECT_EQ(layers("GlmForCausalLM", {{"head_dim", 16}}), (L(4, {0, 8})));
}

TEST(Config, longrope_goes_by_what_the_server_allows) {
  Json config = llama({{"architectures", {"Phi3ForCausalLM"}},
                       {"max_position_embeddings", 128},
                       {"original_max_position_embeddings", 32},
                       {"rope_scaling",
                        {{"type", "longrope"},
                         {"short_factor", std::vector<double>(8, 1.0)},
                         {"long_factor", std::vector<double>(8, 4.0)},
                         {"short_mscale", 1.25},
                         {"long_mscale", 1.5}}}});
  const auto magnitude = [&](int64_t max_model_len) {
    return parse_model(config, max_model_len)->spec().caches.at(0).rope_magnitude;
  };
  EXPECT_EQ(magnitude(0), 1.5) << "the config's own limit";
  EXPECT_EQ(magnitude(33), 1.5);
  EXPECT_EQ(magnitude(32), 1.25);
  config[kServedPositions] = 1;  // a file cannot choose
  EXPECT_EQ(magnitude(0), 1.5);
  EXPECT_EQ(parse_model(config)->spec().rope_switch, 32);
  EXPECT_EQ(parse_model(llama())->spec().rope_switch, 0);
}

TEST(Config, dense_families_refuse_by_name) {
  const auto refused = [](const char* cls, Json changes) {
    Json c = llama(changes);
    c["architectures"] = {cls};
    return refusal(c);
  };
  const auto contains = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  contains(refused("Phi3ForCausalLM", {{"attention_bias", true}}),
           "attention_bias is true; the class is read without it");
  contains(refused("Phi3ForCausalLM", {{"rope_scaling", {{"type", "longrope"}}}}),
           "rope_parameters.original_max_position_embeddings is missing");
  contains(refused("SmolLM3ForCausalLM", {{"no_rope_layers", {1}}}), "no_rope_layers has 1 entries, expected 3");
  contains(refused("SmolLM3ForCausalLM", {{"no_rope_layers", {1, 2, 1}}}), "no_rope_layers holds '2'");
  contains(refused("SmolLM3ForCausalLM", {{"layer_types", {"sliding_attention", "full_attention", "full_attention"}}}),
           "use_sliding_window is off");
  contains(refused("GraniteForCausalLM", {{"logits_scaling", 0}}), "logits_scaling is 0");
  contains(refused("Exaone4ForCausalLM", {{"sliding_window_pattern", "LLX"}}), "sliding_window_pattern is 'LLX'");
  contains(refused("Exaone4ForCausalLM", {{"layer_types", std::vector<std::string>(3, "full_attention")}}),
           "no layer slides");
  contains(refused("MinistralForCausalLM",
                   {{"sliding_window", nullptr}, {"layer_types", std::vector<std::string>(3, "sliding_attention")}}),
           "there is no sliding_window");
  contains(
      refused("MinistralForCausalLM", {{"layer_types", {"full_attention", "chunked_attention", "full_attention"}}}),
      "unknown word in layer_types 'chunked_attention'");
  contains(refused("Ministral3ForCausalLM", {{"rope_parameters", {{"rope_type", "default"}}}}), "llama_4_scaling_beta");
  contains(refused("HunYuanDenseV1ForCausalLM", {{"use_cla", true}}), "use_cla");
  contains(refused("HunYuanDenseV1ForCausalLM", {{"use_qk_norm", false}}), "use_qk_norm");
}

// What configs of published models say about layers and caches, and what follows from it: worked out by rules written
// once more, and compared with the shapes of projections in the reference framework's classes.
TEST(Config, published_models_give_the_expected_caches) {
  std::ifstream lines(KVCAL_SOURCE_DIR "/tests/unit/data/models/published.jsonl");
  int n_checked = 0;
  for (std::string line; std::getline(lines, line); ++n_checked) {
    const Json e = parse_json(line);
    SCOPED_TRACE(e.at("model").get<std::string>());
    const ModelSpec spec = parse_model(e.at("config"))->spec();
    std::vector<int> layers;
    for (const KvLayout& c : spec.caches) layers.push_back(c.layer);
    EXPECT_EQ(layers, e.at("kv_layers").get<std::vector<int>>());
    EXPECT_EQ(static_cast<int64_t>(spec.layers.size()), e.at("n_layers").get<int64_t>());
    const int64_t elements = e.at("kv_bytes_per_token").get<int64_t>() / 2;
    EXPECT_EQ(kv_bytes_per_token(spec, 2), 2 * elements);
    EXPECT_EQ(kv_bytes_per_token(spec, 1), elements);
  }
  EXPECT_EQ(n_checked, 35);
}

}  // namespace
}  // namespace kvcal
