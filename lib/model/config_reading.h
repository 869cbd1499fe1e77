// Reading what all decoder families share from config.json, with range checks: a config is an untrusted file.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/model_spec.h"
#include "ops/ops.h"

namespace kvcal {

/// The language model's own object: config["text_config"] of a vision-language wrapper, else the config itself.
const Json& text_config(const Json& config);

/// The tower's own object. Throws Error where there is none.
const Json& vision_config(const Json& config);

/// Key of a text config that parse_model writes: the longest context that the server will allow, where it was told.
constexpr const char* kServedPositions = "max_model_len";

/// A count or size: an integer in [1, 2^31). Absent or null takes the family's default; no default = required.
int64_t read_size(const Json& config, const char* key, std::optional<int64_t> fallback = std::nullopt);

/// Throws Error with the value and what was expected unless the condition holds.
void expect_size(const char* key, bool holds, int64_t value, const std::string& expected);

/// Throws Error with the word that the config has, unless it is the expected one or absent.
void expect_word(const Json& config, const char* key, std::string_view expected);

struct DecoderDims {
  int64_t vocab, hidden, ffn, n_layers, n_heads, n_kv_heads, head_dim, max_positions;
  float eps;
  bool tied_head;
};

/// A family's defaults for missing keys, as the reference framework's config class has them. n_kv_heads 0 = n_heads,
/// head_dim 0 = hidden / n_heads; null in a config means the same. After the sizes: what the family computes, and how.
struct DecoderDefaults {
  int64_t vocab, hidden, ffn, n_layers, n_heads;
  int64_t n_kv_heads = 0;  // n_heads
  int64_t head_dim = 0;    // hidden / n_heads
  int64_t max_positions;
  bool tied_head = false;
  Activation act = Activation::Silu;
  const char* act_key = "hidden_act";
  const char* eps_key = "rms_norm_eps";
  double eps = 1e-6;
  bool layers_differ = false;  // the family reads per_layer_config, or block_configs
};

/// Dimensions and epsilon from the text config; tie_word_embeddings also counts at the outer level. Refuses activations
/// other than the family's and head counts that do not divide.
DecoderDims read_decoder_dims(const Json& config, const DecoderDefaults& defaults);

/// layer_types checked against n_layers and the words a family knows; absent -> nullopt.
std::optional<std::vector<std::string>> read_layer_types(const Json& config, int64_t n_layers,
                                                         const std::vector<std::string>& known);

/// Entries of per_layer_config by layer, null where there is none; the reference pads their keys with zeros ("05").
std::vector<const Json*> read_layer_entries(const Json& config, int64_t n_layers);

/// The window (0 = none) of each layer: of those that layer_types calls sliding_attention. Without layer_types all
/// layers have it. Absent `sliding_window` takes the default; null means none anywhere, and then no layer may slide.
std::vector<int64_t> read_windows(const Json& config, int64_t n_layers, int64_t fallback);

/// Sliding window of every layer (0 = none) by the Qwen2/Qwen3 rule: only with use_sliding_window; layer_types decide,
/// else layers from max_window_layers on.
std::vector<int64_t> read_qwen_windows(const Json& config, int64_t n_layers);

/// The window of models that have it with use_sliding_window only; 0 = none.
int64_t read_used_window(const Json& config);

/// A key of the config by a family's own name and by the usual one.
struct KeyName {
  const char *own, *usual;
};

/// A copy with the usual keys in place of the family's. Throws where both are given and differ.
Json with_usual_keys(const Json& config, std::initializer_list<KeyName> names);

/// The activation that a word of the config means; absent takes the default.
Activation read_activation(const Json& config, const char* key, Activation fallback);

/// clip_qkv: q, k and v are clamped to ± this before RoPE; 0 = they are not.
float read_clip(const Json& config);

/// A spec with the general fields filled in from the config and dims, with the placeholder tokens of images and videos
/// (image_token_id, image_token_index or media_placeholder_token_id, video_token_id) where it has a vision_config;
/// layers and caches are the family's.
ModelSpec general_spec(const Json& config, const DecoderDims& dims);

/// n_deepstack of a config with a vision_config: one stream for each layer in its deepstack_visual_indexes, three where
/// it is silent. Call behind the last layer.
void read_deepstack(const Json& config, ModelSpec& spec);

/// Windows by layer_types: `window` where the word is sliding_attention, else 0. Without layer_types every layer slides
/// but each `period`-th.
std::vector<int64_t> read_periodic_windows(const Json& config, int64_t n_layers, int64_t window, int64_t period);

/// Adds an attention layer that owns a grouped-query cache, with every field of its layout set; RoPE of no dimension is
/// none. -> the layout, for what is different in a family; valid until the next layer is added.
KvLayout& add_attention_layer(ModelSpec& spec, const DecoderDims& dims, const RopeSpec& rope, int64_t window);

}  // namespace kvcal
