// What a model is, as plain data: its layers and the KV caches they own. Made from config.json by an Architecture.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/attention_tensors.h"

namespace kvcal {

/// What mixes tokens in a layer.
enum class LayerKind : uint8_t {
  Attention,
  GatedDeltaNet,
  KimiDeltaAttention,
  LightningAttention,
  Mamba,
  Mamba2,
  ShortConv,
  FeedForward,  // nothing
};

/// The word used in artifacts: "attention", "gated_delta_net", "mamba2", ...
std::string_view name_of(LayerKind kind);

/// The word of `inspect`: "attention", "linear_attention", "mamba", "conv" or "mlp".
std::string_view inspect_name_of(LayerKind kind);

/// Which channels of a key form rotary pairs, hence which pair norms bound the key at any position.
enum class PairBound : uint8_t { None, Neox, Gptj };
std::string_view name_of(PairBound bound);

/// One KV cache. Statistics are keyed by cache, not by layer.
struct KvLayout {
  int cache = 0;                        // index in ModelSpec::caches
  int layer = 0;                        // owner
  std::string name;                     // module that owns it, without the checkpoint's prefix: "layers.3.self_attn"
  std::string kind = "gqa";             // or "mla": one row [latent | rope part] for all heads, no values of its own
  int64_t n_heads = 0, n_kv_heads = 0;  // query heads; key and value heads
  int64_t head_dim_k = 0, head_dim_v = 0;
  int64_t rotary_dim = 0;  // first channels of a head ("mla": of the rope part) that RoPE turns; 0 = no RoPE
  PairBound pair_bound = PairBound::None;
  double softmax_scale = 0;
  double rope_magnitude = 1;   // RoPE lengthens every pair by this (yarn)
  int64_t window = 0;          // 0 = all positions
  int64_t latent_dim = 0;      // of "mla": the first columns of the row, which are its values; else 0
  bool learned_sinks = false;  // a logit of each head takes a share of its softmax and has no value
  bool normed_output = false;  // what attention puts out is projected and normed before it is added or read
  bool capped_logits = false;  // a soft cap on attention logits

  bool is_mla() const { return kind == "mla"; }
};

struct LayerSpec {
  int index = 0;
  LayerKind kind = LayerKind::Attention;
  int cache = -1;               // index in ModelSpec::caches, -1 = owns none
  int shares_cache = -1;        // the cache of an earlier layer that it reads instead, -1 = none
  int picker = -1;              // the earlier layer whose choice of keys it takes, -1 = none
  int64_t parameters = 0;       // of the whole layer, feed-forward included
  int64_t activations = 0;      // elements that its forward allocates per token: what Plan sizes the arena by
  int64_t copies = 0;           // elements of weights that are loaded once more, in another order, or wider
  double expert_share = 1;      // of a batch's rows, those that one expert gets on average; 1 = there are no experts
  int64_t index_row_bytes = 0;  // of a token in the cache of an indexer's keys that servers keep beside the layer's own
  int64_t kept_row = 0;         // elements that attention keeps of a token, where that is not the row of its cache
  int64_t state_bytes = 0;      // recurrent state of one sequence (convolution window in bf16, delta state in f32)
  int64_t conv_bytes = 0;       // of that the window
  int64_t state_row = 0;        // elements of the state that belong to one row of a head: those that an input meets
  int64_t state_heads = 0;      // of the state; 1 where each channel has a state of its own
  AttentionTensors attention{};  // of a layer that owns or shares a cache

  /// A state that runs through all tokens, not just the window of a convolution.
  bool has_long_state() const { return state_bytes > 0 && kind != LayerKind::ShortConv; }

  /// What the state is of: attention has none of its own, a layer with both has Mamba-2 beside it.
  LayerKind state_kind() const { return kind == LayerKind::Attention ? LayerKind::Mamba2 : kind; }
};

struct ModelSpec {
  std::string architecture;  // "Qwen3ForCausalLM"
  std::string model_type;    // config.json's own, outer level
  int64_t hidden = 0, vocab = 0, max_positions = 0;
  int64_t n_streams = 1;    // rows of `hidden` that the residual stream has of a token (AltUp)
  int64_t rope_switch = 0;  // a server that allows more tokens than this turns by other frequencies; 0 = no such rule
  int64_t indexed_beyond = 0;      // in longer sequences an indexer picks the keys of a query; 0 = there is none
  int64_t n_pickers = 0;           // choices of keys that a layer makes for each of its queries
  bool index_keys_in_fp8 = false;  // servers store the keys of the indexer in E4M3, a scale for each
  int64_t n_position_axes = 1;     // 3 for mRoPE
  bool tied_head = false;
  std::string default_prefix = "model.";  // of the language model's tensors, when no checkpoint tells better
  std::string embedding = "embed_tokens.weight", final_norm = "norm.weight";  // their names below the prefix
  std::string merging_module;  // below it, too: what makes one stream of several behind the last layer; empty: none
  std::string layer_prefix = "layers.";  // below the prefix, in front of a layer's number
  std::string head = "lm_head.weight";   // of an untied head: beside the prefix or at the top
  bool above_rope_switch = false;        // which of both this model was read for
  std::vector<int32_t> placeholders;     // tokens that stand for rows of an encoder: image, video
  int64_t table_parameters = 0;          // of no layer, beside embedding and head: Gemma 4's embeddings by layer
  int64_t head_activations = 0;          // elements per row that the head allocates before its norm
  bool images_seen_whole = false;  // in some layer the tokens of an image attend to all of it, not only to earlier ones
  int64_t n_deepstack = 0;         // streams of that encoder, added to the residual after layers 0, 1, ...
  std::vector<LayerSpec> layers;
  std::vector<KvLayout> caches;
  // What the names of the MTP layer's tensors begin with (model/decoders/mtp.h): "mtp." or "model.mtp.layers.0.",
  // beside the language model's prefix, or "layers.46.", below it; "" where the config has no such layer or this
  // program does not read it.
  std::string mtp_names;
  int n_mtp_layers = 0;  // the last so many of `layers` are MTP layers: 0, or 1 where it was asked for

  int64_t residual_width() const { return n_streams * hidden; }

  /// Of what makes streams of embedded rows; as many make rows for the head of streams.
  int64_t stream_parameters() const { return (n_streams - 1) * hidden * hidden; }

  bool is_mtp(int layer) const { return layer >= static_cast<int>(layers.size()) - n_mtp_layers; }

  /// What the names of a layer's tensors begin with: "layers.3.".
  std::string names_of(int64_t layer) const { return layer_prefix + std::to_string(layer) + "."; }

  /// The last layer that owns a cache, reads one or has a long state: nothing is to be seen after it.
  int last_counted_layer() const;

  /// The last layer that reads a cache's rows: its owner, unless others share it; and how many of those there are.
  int last_reader(int cache) const;
  int n_sharing(int cache) const;

  /// The layers that read it, ascending: its owner and those that share it.
  std::vector<int> readers_of(int cache) const;

  /// The last layer that takes a layer's choice of keys: itself, unless later ones do.
  int last_taking_choices(int layer) const;
};

/// Whether names of tensors or modules that begin so stand beside the language model's prefix, not below it.
bool is_beside_prefix(std::string_view name);

/// The module that owns a cache, as the checkpoint names it.
std::string module_name(const std::string& prefix, const KvLayout& cache);

/// Bytes that one token adds to all caches together, with elements of `element_bytes`. An MLA row holds its values.
int64_t kv_bytes_per_token(const ModelSpec& spec, int element_bytes);

}  // namespace kvcal
