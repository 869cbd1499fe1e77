// A token's embedding for one layer alone (Gemma 3n and 4): gated by the layer's stream, and added to it or to others.
// Norms have plain gains, applied in float32.
#pragma once

#include <optional>

#include "model/layers/decoder_parts.h"

namespace kvcal {

struct LayerEmbeddingShape {
  int64_t hidden, vocab, n_layers;
  int64_t width, table_vocab;  // of a row for one layer, and the rows of the table
  float eps;
  float sum_factor;                    // of the sum of both embeddings: the root of a half, as the family rounds it
  std::optional<int32_t> image_token;  // the token whose embeddings the tokens of images have; absent: their own
};

class LayerEmbedding {
 public:
  /// `model` is positioned at the language model, `w` at the layer.
  LayerEmbedding(const LayerEmbeddingShape& shape, int layer, WeightLoader& loader, WeightBinder& model,
                 WeightBinder& w);

  /// x [tokens, hidden], which gates -> what is to be added, [tokens, hidden].
  Tensor forward(Ops& op, const Tensor& x, const Batch& batch) const;

 private:
  std::vector<int32_t> rows_of(const Batch& batch) const;

  LayerEmbeddingShape shape_;
  int64_t layer_;
  float input_factor_, own_factor_, projection_factor_;
  Tensor inputs_, table_;           // [vocab, hidden], [table_vocab · n_layers, width], host
  Linear projection_, gate_, out_;  // [width, hidden], [width, hidden], [hidden, width]
  Owned norm_, out_norm_;           // [width], [hidden]
};

}  // namespace kvcal
