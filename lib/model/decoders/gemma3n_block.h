// A decoder layer of Gemma 3n: attention beside a low-rank branch (LAuReL) and a feed-forward that may keep only its
// largest gates, on one of several streams (AltUp); an embedding of the token for this layer alone, which goes to the
// others (docs/model-notes.md, "Gemma 3n"). Norms have plain gains, applied in float32.
#pragma once

#include "model/layers/alt_up.h"
#include "model/layers/decoder_parts.h"

namespace kvcal {

struct Gemma3nConfig {
  DecoderDims dims;
  Bias bias;
  RopeSpec full_rope, sliding_rope;
  AltUpShape streams;
  bool scales_corrected;  // the active stream, where the embedding by layer reads it
  int64_t laurel_rank;
  int64_t per_layer_dim, per_layer_vocab;
};

/// One layer's shape.
struct Gemma3nLayer {
  int index;
  bool full;       // attends to everything; else slides
  int owner;       // the layer whose rows it reads, itself unless they are another's
  bool shared;     // later layers read its rows
  int64_t ffn;     // dims.ffn is the largest
  float sparsity;  // the share of gates that are zero, as if they were normally distributed; 0 = they stay
};

/// What a layer allocates for a token beyond an ordinary attention layer.
int64_t gemma3n_extra_activations(const Gemma3nConfig& c, const Gemma3nLayer& layer);

/// `weights` is positioned at the language model. `layout`: of the cache that the layer owns or reads.
std::unique_ptr<Block> load_gemma3n_block(const Gemma3nConfig& c, const Gemma3nLayer& layer, const KvLayout& layout,
                                          WeightLoader& loader, WeightBinder& weights);

}  // namespace kvcal
