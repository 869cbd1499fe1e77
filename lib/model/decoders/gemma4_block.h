// A decoder layer of Gemma 4: attention of a geometry of its own, or over the rows of an earlier layer; a dense
// feed-forward, with a mixture of experts beside it; an embedding of the token for this layer alone
// (docs/model-notes.md, "Gemma 4"). Norms have plain gains, applied in float32.
#pragma once

#include <optional>

#include "model/layers/decoder_parts.h"
#include "model/layers/sparse_moe.h"

namespace kvcal {

struct Gemma4Config {
  DecoderDims dims;  // head_dim and n_kv_heads: of sliding layers
  Bias bias;
  float attention_cap;
  RopeSpec full_rope, sliding_rope;
  int64_t per_layer_dim, per_layer_vocab;  // 0 = no embeddings by layer
  int32_t pad;                             // the token whose embeddings by layer the tokens of images have
  std::optional<MoeDims> moe;
};

/// One layer's shape.
struct Gemma4Layer {
  int index;
  bool full;            // attends to everything; else slides
  bool keys_as_values;  // no projection for values: they are the keys before norm and RoPE
  int owner;            // the layer whose rows it reads, itself unless they are another's
  bool shared;          // later layers read its rows
  int64_t head_dim, n_kv_heads, ffn;
};

/// What a layer allocates for a token beyond an ordinary attention layer.
int64_t gemma4_extra_activations(const Gemma4Config& c);

/// `weights` is positioned at the language model. `layout`: of the cache that the layer owns or reads.
std::unique_ptr<Block> load_gemma4_block(const Gemma4Config& c, const Gemma4Layer& layer, const KvLayout& layout,
                                         WeightLoader& loader, WeightBinder& weights);

}  // namespace kvcal
