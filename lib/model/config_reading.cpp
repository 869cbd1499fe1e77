#include "model/config_reading.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "model/rope.h"

namespace kvcal {

const Json& text_config(const Json& config) {
  const Json* text = find_member(config, "text_config");
  if (text && !text->is_object()) fail("text_config is not an object");
  return text ? *text : config;
}

const Json& vision_config(const Json& config) {
  const Json* vision = find_member(config, "vision_config");
  if (!vision) fail("is not there");
  return *vision;
}

int64_t read_size(const Json& config, const char* key, std::optional<int64_t> fallback) {
  constexpr int64_t kLimit = int64_t{1} << 31;
  const int64_t n = fallback ? get_int_or(config, key, *fallback) : get_int(config, key);
  if (n < 1 || n >= kLimit)
    fail(std::string(key) + " is " + std::to_string(n) + ", expected a number from 1 to " + std::to_string(kLimit - 1));
  return n;
}

void expect_size(const char* key, bool holds, int64_t value, const std::string& expected) {
  if (!holds) fail(std::string(key) + " is " + std::to_string(value) + ", expected " + expected);
}

void expect_word(const Json& config, const char* key, std::string_view expected) {
  if (const std::string word = get_string_or(config, key, expected); word != expected)
    fail(std::string(key) + " is " + quoted(word) + ", expected " + std::string(expected));
}

namespace {

struct ActivationWord {
  std::string_view word;
  Activation act;
};
constexpr ActivationWord kActivationWords[] = {
    {"silu", Activation::Silu},          {"swish", Activation::Silu},
    {"gelu", Activation::Gelu},          {"gelu_pytorch_tanh", Activation::GeluTanh},
    {"gelu_new", Activation::GeluTanh},  {"gelu_tanh", Activation::GeluTanh},
    {"gelu_fast", Activation::GeluTanh}, {"relu", Activation::Relu},
    {"relu2", Activation::Relu2},        {"swigluoai", Activation::Clamped},
};

void require_activation(const Json& config, const DecoderDefaults& family) {
  const Json* given = find_member(config, family.act_key);
  if (!given) return;
  const std::string act = get_string(config, family.act_key);
  std::string_view usual;
  for (const auto& [word, meaning] : kActivationWords) {
    if (meaning != family.act) continue;
    if (word == act) return;
    if (usual.empty()) usual = word;
  }
  fail(std::string(family.act_key) + " is " + quoted(act) + "; this architecture is read with " +
       quoted(std::string(usual)) + " only");
}

// Absent means the family's default, if it has one; null what other sizes give.
int64_t read_derived_size(const Json& text, const char* key, int64_t family, int64_t derived) {
  const bool by_family = family != 0 && !text.contains(key);
  return read_size(text, key, by_family ? family : derived);
}

}  // namespace

Json with_usual_keys(const Json& config, std::initializer_list<KeyName> names) {
  Json out = config;
  for (const auto& [own, usual] : names) {
    const Json* given = find_member(config, own);
    if (!given) continue;
    if (const Json* other = find_member(config, usual); other && *other != *given)
      fail(std::string(own) + " and " + usual + " are two names of one thing and differ: leave the one that is meant");
    out[usual] = *given;
  }
  return out;
}

Activation read_activation(const Json& config, const char* key, Activation fallback) {
  if (!find_member(config, key)) return fallback;
  const std::string word = get_string(config, key);
  std::vector<std::string> known;
  for (const ActivationWord& a : kActivationWords) {
    if (a.word == word) return a.act;
    known.emplace_back(a.word);
  }
  fail_unknown(key, word, known);
}

DecoderDims read_decoder_dims(const Json& config, const DecoderDefaults& defaults) {
  const Json& text = text_config(config);
  require_activation(text, defaults);
  if (const Json* own = find_member(text, "per_layer_config"); own && !own->empty() && !defaults.layers_differ)
    fail("per_layer_config gives layers sizes of their own, which is not read for this architecture");
  if (find_member(text, "block_configs") && !defaults.layers_differ)
    fail("block_configs gives each layer its own sizes, which is not read for this architecture");
  DecoderDims d{};
  d.vocab = read_size(text, "vocab_size", defaults.vocab);
  d.hidden = read_size(text, "hidden_size", defaults.hidden);
  d.ffn = read_size(text, "intermediate_size", defaults.ffn);
  d.n_layers = read_size(text, "num_hidden_layers", defaults.n_layers);
  d.n_heads = read_size(text, "num_attention_heads", defaults.n_heads);
  d.n_kv_heads = read_derived_size(text, "num_key_value_heads", defaults.n_kv_heads, d.n_heads);
  d.head_dim = read_derived_size(text, "head_dim", defaults.head_dim, std::max<int64_t>(1, d.hidden / d.n_heads));
  d.max_positions = read_size(text, "max_position_embeddings", defaults.max_positions);
  d.eps = static_cast<float>(get_number_or(text, defaults.eps_key, defaults.eps));
  d.tied_head =
      get_bool_or(config, "tie_word_embeddings", get_bool_or(text, "tie_word_embeddings", defaults.tied_head));
  if (d.n_heads % d.n_kv_heads != 0)
    fail("num_attention_heads " + std::to_string(d.n_heads) + " is not a multiple of num_key_value_heads " +
         std::to_string(d.n_kv_heads));
  if (!(d.eps > 0) || !std::isfinite(d.eps)) fail(std::string(defaults.eps_key) + " is not a positive number");
  // Far beyond what exists; products of them, over all layers, stay below 2^63.
  constexpr int64_t kMostLayers = 4096, kWidest = int64_t{1} << 20, kMostHeads = int64_t{1} << 14;
  const auto at_most = [](const char* key, int64_t value, int64_t most) {
    expect_size(key, value <= most, value, "at most " + std::to_string(most));
  };
  at_most("num_hidden_layers", d.n_layers, kMostLayers);
  at_most("hidden_size", d.hidden, kWidest);
  at_most("intermediate_size", d.ffn, kWidest);
  at_most("num_attention_heads", d.n_heads, kMostHeads);
  return d;
}

std::optional<std::vector<std::string>> read_layer_types(const Json& config, int64_t n_layers,
                                                         const std::vector<std::string>& known) {
  const Json* list = find_member(config, "layer_types");
  if (!list) return std::nullopt;
  if (!list->is_array() || static_cast<int64_t>(list->size()) != n_layers)
    fail("layer_types has " + std::to_string(list->is_array() ? list->size() : 0) + " entries, expected " +
         std::to_string(n_layers) + " (num_hidden_layers)");
  std::vector<std::string> types;
  for (const Json& t : *list) {
    if (!t.is_string()) fail("layer_types holds something that is not a word");
    types.push_back(t.get<std::string>());
    if (std::find(known.begin(), known.end(), types.back()) == known.end())
      fail_unknown("word in layer_types", types.back(), known);
  }
  return types;
}

int64_t read_used_window(const Json& config) {
  constexpr int64_t kDefaultWindow = 4096;  // of the reference config classes
  const bool null_window = config.contains("sliding_window") && config["sliding_window"].is_null();
  if (!get_bool_or(config, "use_sliding_window", false) || null_window) return 0;
  return read_size(config, "sliding_window", kDefaultWindow);
}

float read_clip(const Json& config) {
  if (!find_member(config, "clip_qkv")) return 0;
  const double clip = get_number(config, "clip_qkv");
  if (!(clip > 0) || !std::isfinite(clip)) fail("clip_qkv is " + std::to_string(clip) + ", expected a positive number");
  return static_cast<float>(clip);
}

std::vector<int64_t> read_windows(const Json& config, int64_t n_layers, int64_t fallback) {
  const auto types = read_layer_types(config, n_layers, {"full_attention", "sliding_attention"});
  const bool none = config.contains("sliding_window") ? config["sliding_window"].is_null() : fallback == 0;
  const int64_t window = none ? 0 : read_size(config, "sliding_window", fallback);
  std::vector<int64_t> windows(static_cast<size_t>(n_layers), window);
  if (!types) return windows;
  for (size_t i = 0; i < windows.size(); ++i) {
    if ((*types)[i] == "full_attention")
      windows[i] = 0;
    else if (none)
      fail("layer_types names sliding_attention, but there is no sliding_window");
  }
  return windows;
}

std::vector<int64_t> read_qwen_windows(const Json& config, int64_t n_layers) {
  const auto types = read_layer_types(config, n_layers, {"full_attention", "sliding_attention"});
  std::vector<int64_t> windows(static_cast<size_t>(n_layers), 0);
  constexpr int64_t kDefaultMaxWindowLayers = 28;  // of the reference config classes
  const int64_t window = read_used_window(config);
  if (window == 0) {
    if (types && std::count(types->begin(), types->end(), "sliding_attention") > 0)
      fail("layer_types names sliding_attention, but use_sliding_window is off or sliding_window is null");
    return windows;
  }
  const int64_t first = get_int_or(config, "max_window_layers", kDefaultMaxWindowLayers);
  for (int64_t i = 0; i < n_layers; ++i) {
    const bool slides = types ? (*types)[static_cast<size_t>(i)] == "sliding_attention" : i >= first;
    if (slides) windows[static_cast<size_t>(i)] = window;
  }
  return windows;
}

std::vector<int64_t> read_periodic_windows(const Json& config, int64_t n_layers, int64_t window, int64_t period) {
  const auto types = read_layer_types(config, n_layers, {"full_attention", "sliding_attention"});
  std::vector<int64_t> windows;
  for (int64_t i = 0; i < n_layers; ++i) {
    const bool slides = types ? (*types)[static_cast<size_t>(i)] == "sliding_attention" : (i + 1) % period != 0;
    windows.push_back(slides ? window : 0);
  }
  return windows;
}

namespace {

std::vector<int32_t> read_placeholders(const Json& config, int64_t vocab) {
  std::vector<int32_t> ids;
  if (!find_member(config, "vision_config")) return ids;
  for (const char* key : {"image_token_id", "image_token_index", "media_placeholder_token_id", "video_token_id"}) {
    if (!find_member(config, key)) continue;
    const int64_t id = get_int(config, key);
    if (id >= 0 && id < vocab) ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

}  // namespace

std::vector<const Json*> read_layer_entries(const Json& text, int64_t n_layers) {
  std::vector<const Json*> entries(static_cast<size_t>(n_layers), nullptr);
  const Json* table = find_member(text, "per_layer_config");
  if (!table) return entries;
  if (!table->is_object()) fail("per_layer_config is not an object");
  for (const auto& member : table->get_ref<const Json::object_t&>()) {
    const std::string& key = member.first;
    int64_t layer = -1;
    const auto parsed = std::from_chars(key.data(), key.data() + key.size(), layer);
    if (parsed.ec != std::errc() || parsed.ptr != key.data() + key.size() || layer < 0 || layer >= n_layers)
      fail("per_layer_config has the key " + quoted(key) + ", expected a layer number below " +
           std::to_string(n_layers));
    const Json*& entry = entries[static_cast<size_t>(layer)];
    if (entry) fail("per_layer_config has layer " + std::to_string(layer) + " twice");
    if (!member.second.is_object()) fail("per_layer_config[" + std::to_string(layer) + "] is not an object");
    entry = &member.second;
  }
  return entries;
}

ModelSpec general_spec(const Json& config, const DecoderDims& dims) {
  ModelSpec spec;
  spec.architecture = config.at("architectures").at(0).get<std::string>();  // parse_model has found it there
  spec.model_type = get_string_or(config, "model_type", "");
  spec.vocab = dims.vocab;
  spec.hidden = dims.hidden;
  spec.max_positions = dims.max_positions;
  spec.tied_head = dims.tied_head;
  spec.placeholders = read_placeholders(config, spec.vocab);
  return spec;
}

void read_deepstack(const Json& config, ModelSpec& spec) {
  constexpr size_t kDefault = 3;
  const Json* vision = find_member(config, "vision_config");
  if (!vision) return;
  const Json* indexes = find_member(*vision, "deepstack_visual_indexes");
  if (indexes && !indexes->is_array()) fail("deepstack_visual_indexes is not a list");
  const size_t n = indexes ? indexes->size() : kDefault;
  if (n > spec.layers.size())
    fail("deepstack_visual_indexes has " + std::to_string(n) + " entries, but there are " +
         std::to_string(spec.layers.size()) + " layers to add them after");
  spec.n_deepstack = static_cast<int64_t>(n);
  for (size_t i = 0; i < n; ++i) spec.layers[i].activations += 2 * spec.hidden;  // the stream and the sum
}

KvLayout& add_attention_layer(ModelSpec& spec, const DecoderDims& dims, const RopeSpec& rope, int64_t window) {
  const int index = static_cast<int>(spec.layers.size());
  KvLayout cache;
  cache.cache = static_cast<int>(spec.caches.size());
  cache.layer = index;
  cache.name = spec.names_of(index) + "self_attn";
  cache.n_heads = dims.n_heads;
  cache.n_kv_heads = dims.n_kv_heads;
  cache.head_dim_k = cache.head_dim_v = dims.head_dim;
  cache.rotary_dim = rope.rotary_dim;
  if (rope.rotary_dim > 0) cache.pair_bound = rope.interleaved ? PairBound::Gptj : PairBound::Neox;
  cache.softmax_scale = 1 / std::sqrt(static_cast<double>(dims.head_dim));
  cache.rope_magnitude = static_cast<double>(rope.magnitude);
  cache.window = window;
  LayerSpec layer;
  layer.index = index;
  layer.cache = cache.cache;
  layer.attention.module = cache.name + ".";
  // x, its norm, the projections, their norms and rotations, attention and its output, gate, up, product and down.
  const int64_t q = dims.n_heads * dims.head_dim, kv = dims.n_kv_heads * dims.head_dim;
  layer.activations = 7 * dims.hidden + 6 * q + 4 * kv + 3 * dims.ffn + rope.rotary_dim;
  spec.layers.push_back(layer);
  spec.caches.push_back(cache);
  spec.n_position_axes = std::max(spec.n_position_axes, rope_position_axes(rope));
  return spec.caches.back();
}

}  // namespace kvcal
