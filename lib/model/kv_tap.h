// The one place where code reads or changes what a server would store in its cache.
#pragma once

#include "model/batch.h"
#include "tensor/tensor.h"

namespace kvcal {

/// What a layer's attention works on.
struct TappedAttention {
  Tensor q, k, v;                       // as tapped, of the batch; MLA: the absorbed query, the row, its latent part
  std::span<const KvRows* const> rows;  // by span: the rows of its sequence so far; null = the span is the sequence
  const AttentionSpec& spec;
  const ColumnNorms& column_norms;  // of the output projection
  bool one_scale = false;           // k and v are one row
};

/// Sees exactly what a serving engine hands to its cache: keys after bias, QK norm and RoPE, values as written, queries
/// before the softmax scale. Returns the tensor to use from there on: an observer its argument, an evaluator the
/// quantized one. `cache` indexes ModelSpec::caches.
class KvTap {
 public:
  virtual ~KvTap() = default;

  virtual Tensor query(int cache, const Tensor& q, const Batch& batch) = 0;  // [tokens, n_heads, head_dim_k]
  virtual Tensor key(int cache, const Tensor& k, const Batch& batch) = 0;    // [tokens, n_kv_heads, head_dim_k]
  virtual Tensor value(int cache, const Tensor& v, const Batch& batch) = 0;  // [tokens, n_kv_heads, head_dim_v]

  /// MLA: the row that stands for key and value, [tokens, 1, head_dim_k]. The query is then the absorbed one that
  /// decoding compares with it; it is shown only, what comes back is not used, unless reads_absorbed_queries().
  virtual Tensor latent(int cache, const Tensor& row, const Batch& batch) = 0;

  /// The key that an indexer compares, [tokens, 1, dim]: servers keep it in a cache beside the layer's own.
  virtual Tensor index_key(const Tensor& key, const Batch&) { return key; }

  /// MLA: whether attention compares absorbed queries, as query() returns them, with rows, as decoding does; else it
  /// expands both.
  virtual bool reads_absorbed_queries(int /*cache*/) const { return false; }

  /// Whether it looks at absorbed queries: they are made for it alone, by a product and a copy of each token and head.
  virtual bool wants_absorbed_queries() const { return true; }

  /// Above 0: attention reads the rows of so many positions as key(), value() and latent() return them until their
  /// block is complete (no batch goes beyond one), and from then on as stored() does.
  virtual int64_t block() const { return 0; }
  struct Rows {
    Tensor k, v;  // as of key() and value(); MLA: the row, and nothing
  };
  virtual Rows stored(int /*cache*/, const Rows& block) { return block; }

  /// How attention rounds probabilities.
  virtual ProbabilityRounding probabilities(int /*cache*/) const { return {}; }

  /// Whether it wants attention(): then the rows of sequences that span several batches are kept for it.
  virtual bool samples() const { return false; }

  /// Before a layer works on a batch: the residual stream that it reads, [tokens, hidden]; stays until it is done.
  virtual void layer_input(const Tensor&) {}

  /// After query, key and value (or latent) of a batch, and once for each layer that reads the cache.
  virtual void attention(Ops&, int, const TappedAttention&, const Batch&) {}

  /// Who counts recurrent states; null: nobody does.
  virtual StateCounter* state_counter() { return nullptr; }

  /// After the last batch of a layer. An observer checks here that it saw every token of every site exactly once.
  virtual void layer_done(int layer) = 0;
};

/// Looks away: for runs that want logits only.
class NoTap final : public KvTap {
 public:
  Tensor query(int, const Tensor& q, const Batch&) override { return q; }
  bool wants_absorbed_queries() const override { return false; }
  Tensor key(int, const Tensor& k, const Batch&) override { return k; }
  Tensor value(int, const Tensor& v, const Batch&) override { return v; }
  Tensor latent(int, const Tensor& row, const Batch&) override { return row; }
  void layer_done(int) override {}
};

}  // namespace kvcal
