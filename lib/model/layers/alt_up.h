// Alternating updates: the residual stream has several rows of a token, of which a layer works on one and from which it
// predicts the others (docs/model-notes.md, "Gemma 3n").
#pragma once

#include "model/layers/decoder_parts.h"

namespace kvcal {

struct AltUpShape {
  int64_t hidden, n_streams, active;  // active: the stream that layers work on
  float eps;
};

class AltUp {
 public:
  /// `w` is positioned at the module: router_norm, modality_router, prediction_coefs, correction_coefs.
  AltUp(const AltUpShape& shape, WeightLoader& loader, WeightBinder w);

  /// x [tokens, n_streams · hidden] -> what the layer would make of them, [tokens, n_streams, hidden].
  Tensor predict(Ops& op, const Tensor& x) const;

  /// The same after the layer has made `made` [tokens, hidden] of the active one.
  Tensor correct(Ops& op, const Tensor& predicted, const Tensor& made) const;

  /// streams plus y [tokens, hidden] in all but the first -> [tokens, n_streams · hidden].
  Tensor add_to_others(Ops& op, const Tensor& streams, const Tensor& y) const;

  Tensor active(Ops& op, const Tensor& streams) const;  // [tokens, hidden]

  /// What a layer allocates for a token.
  static int64_t activations(const AltUpShape& shape);

 private:
  Tensor modalities(Ops& op, const Tensor& x) const;

  AltUpShape shape_;
  float router_factor_;
  Owned router_norm_, others_;                 // [hidden], [n_streams]: 0, then ones
  Linear router_, predictions_, corrections_;  // [n, hidden], [n², n], [n, n], n = n_streams
};

/// v [n] as a row for each of so many tokens: [tokens, n].
Tensor repeated(Ops& op, const Tensor& v, int64_t n_tokens);

/// Rows of embeddings and what projections make of them, of their length each: the streams.
std::unique_ptr<Embedding> load_spread_embedding(const AltUpShape& shape, std::unique_ptr<Embedding> rows,
                                                 WeightLoader& loader, WeightBinder& weights);

constexpr const char* kMergingModule = "altup_unembed_projections";  // below the language model's prefix

/// The mean of the first stream and of projections of the others, of its length each, goes to `head`.
std::unique_ptr<Head> load_merging_head(const AltUpShape& shape, std::unique_ptr<Head> head, WeightLoader& loader,
                                        WeightBinder& weights);

/// What that head allocates for a row beyond `head`.
int64_t merging_activations(const AltUpShape& shape);

}  // namespace kvcal
